"""What one method does in a run of the league: fits of all tables at every ε, a replay, and attacks."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import SampledGaussianEvent
from dpalgos.audit.foreign import audit_callable, table_pairs
from dpalgos.errors import InputError
from flows.league.journal import Journal
from flows.league.scale import MeanScale, RegressionScale
from flows.league.tables import LeagueTable
from flows.league.worker_process import MOST_SECONDS, Method, Worker
from flows.progress import say
from tasks.errors import SpecError

EPSILONS = (1.0, 0.1, 10.0, 0.5, 3.0)  # in this order, if time is short
REPETITIONS = 10  # of every fit: a number that hung on seconds would hang on what else the machine does
AUDIT: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
_AUDIT_ROWS, _AUDIT_SHARE, _LEAST_TRIALS = 10, 0.4, 100  # the share: of a method's time
_ATTACKED = "opposite corners"  # the pairs that are farthest apart, among rows of each kind
_CHOICE, _RUNS = 200, 3  # runs per pair to choose it, and per trial to choose the event and to test it
MOST_PACE = 120.0  # seconds of a method's first fit
_ROUNDING = 1.001  # of a claim, beyond which a replay violates it

Row = dict[str, Any]


@dataclass(frozen=True)
class ScaledTable:
    """A table, its file for workers, and the losses that errors are measured between."""

    table: LeagueTable
    path: Path
    scale: MeanScale | RegressionScale


class MethodRun:
    """A method's fits and attacks, each kept in the journal as soon as it is done."""

    def __init__(
        self, method: Method, entries: Sequence[ScaledTable], folder: Path, journal: Journal, seed: int
    ) -> None:
        self.method, self._folder, self._journal, self._seed = method, folder, journal, seed
        self._worker: Worker | None = None
        self._stopped = False
        self._entries = [entry for entry in entries if entry.table.family in method.families]

    def stop(self) -> None:
        """End what is under way, which is kept nowhere."""
        self._stopped = True
        if self._worker is not None:
            self._worker.stop()

    def pace(self) -> float:
        """Return the seconds that the first fit takes, by the wall, with what it imports and compiles."""
        if not self._entries:
            return 0.0
        with suppress(SpecError), Worker(self.method, self._folder) as worker:
            self._fitted(worker, self._entries[0], EPSILONS[0], 0, MOST_PACE)
        return float(self._journal.get(self._key(self._entries[0], EPSILONS[0], 0)).get("wall", MOST_PACE))

    def all(self, seconds: float, trials: int) -> Row:
        """Return the rows and the audit, within so many seconds."""
        rows: list[Row] = []
        try:
            worker = Worker(self.method, self._folder)
        except SpecError as error:
            failed = [self._row(e, epsilon, error=str(error)) for epsilon in EPSILONS for e in self._entries]
            return {"rows": failed, "audit": {"method": self.method.name, "error": str(error)}}
        began = time.monotonic()
        with worker:
            for epsilon in EPSILONS:
                for entry in self._entries:
                    left = (1 - _AUDIT_SHARE) * seconds - (time.monotonic() - began)
                    if (row := self._measured(worker, entry, epsilon, left)) is not None:
                        rows.append(row)
            audit = self._audited(worker, seconds - (time.monotonic() - began), trials)
        asked = len(EPSILONS) * len(self._entries)
        say(
            f"{self.method.name}: {len(rows)} of {asked} fits, {sum('value' in row for row in rows)} answered"
        )
        return {"rows": rows, "audit": audit}

    def _key(self, entry: ScaledTable, epsilon: float, repetition: int) -> list[Any]:
        return [self.method.digest, self.method.name, entry.table.name, epsilon, repetition]

    def _row(self, entry: ScaledTable, epsilon: float, **found: Any) -> Row:
        table = entry.table
        return {
            "table": table.name,
            "method": self.method.name,
            "family": table.family,
            "epsilon": epsilon,
            **found,
        }

    def _measured(self, worker: Worker, entry: ScaledTable, epsilon: float, left: float) -> Row | None:
        """Return the mean error of ten fits, or of what time allows; None of none."""
        errors: list[float] = []
        seconds: list[float] = []
        while len(errors) < REPETITIONS:
            repetition = len(errors)
            answer = self._fitted(worker, entry, epsilon, repetition, left - sum(seconds))
            if answer is None or "error" in answer:
                if answer is not None:
                    return self._row(entry, epsilon, error=answer["error"])
                break
            errors.append(answer["value"])
            seconds.append(answer["seconds"])
        if not errors:
            return None
        value, spread, repetitions = _mean_with_error(errors)
        halves = [_mean_with_error(errors[1::2]), _mean_with_error(errors[::2])] if repetitions > 1 else None
        found = {"value": value, "standard_error": spread, "halves": halves}
        return self._row(entry, epsilon, **found, seconds=float(np.median(seconds)), repetitions=repetitions)

    def _fitted(
        self, worker: Worker, entry: ScaledTable, epsilon: float, repetition: int, left: float
    ) -> Row | None:
        """Return a fit's error and seconds, from the journal where it is there; None if time ends it."""
        key = self._key(entry, epsilon, repetition)
        if known := self._journal.get(key):
            return known
        if left <= 0 or self._stopped:
            return None
        self._worker, start = worker, time.monotonic()
        worker.load(entry.path)
        delta = len(entry.table.X) ** -2.0
        answer = worker.fit(self.method, left, epsilon=epsilon, delta=delta, seed=self._seed + repetition)
        wall = time.monotonic() - start
        if self._stopped or (answer.pop("ended", False) and left < MOST_SECONDS):
            return None
        found = {"wall": wall, **({"error": answer["error"]} if "error" in answer else {})}
        if "coef" in answer:
            found |= {"value": entry.scale.error(answer["coef"]), "seconds": answer["seconds"]}
        self._journal.add(key, found)
        return found

    def _audited(self, worker: Worker, seconds: float, trials: int) -> Row:
        """Return what a replay and attacks prove at ε = 1; a violated claim is attacked again."""
        key = [self.method.digest, self.method.name, "audit"]
        if not (found := self._journal.get(key)):
            found = {"method": self.method.name, "seed": self._seed}
            with tempfile.TemporaryDirectory() as place, suppress(_TimeIsUp):
                path = Path(place) / "audit.npz"
                try:
                    self._attack(worker, path, seconds, trials, found)
                except (RuntimeError, InputError) as error:
                    found["error"] = str(error)[:200]
            if seconds > 0 and not self._stopped:
                self._journal.add(key, found)
        return found

    def _attack(self, worker: Worker, path: Path, seconds: float, trials: int, found: Row) -> None:
        """Add to ``found`` what rows with a covariate from 0 to 1 and a response from −1 to 1 show."""
        family = self.method.families[0]
        label = family != "linear"
        pairs = table_pairs(_AUDIT_ROWS, 2, 1.0, label=label)
        pairs = [pair for pair in pairs if pair.label.startswith(_ATTACKED)]
        ends: Row = {"lower": np.zeros(1), "upper": np.ones(1), "y_lower": -float(not label), "y_upper": 1.0}
        np.savez(path, X=np.zeros((_AUDIT_ROWS, 1)), y=np.zeros(_AUDIT_ROWS), family=family, **ends)
        worker.load(path)
        answer: Row = {}
        end = time.monotonic() + seconds

        def mechanism(rows: np.ndarray, seed: int) -> object:
            nonlocal answer
            if self._stopped or time.monotonic() > end:
                raise _TimeIsUp
            X, y = (rows[:, :-1] + 1) / 2, rows[:, -1]
            answer = worker.fit(self.method, **AUDIT, seed=seed, X=X.tolist(), y=y.tolist())
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer["coef"]

        found["error"] = "too slow to attack"
        mechanism(pairs[0].X, self._seed)  # what it imports and compiles
        found |= _replayed(answer)
        paces = []
        for pair in pairs:
            start = time.monotonic()
            mechanism(pair.X, self._seed)
            mechanism(pair.other_X, self._seed)
            paces.append((time.monotonic() - start) / 2)
        # As if the slowest pair were chosen, and tested twice.
        choice, trial = _CHOICE * len(pairs) * float(np.mean(paces)), 2 * _RUNS * max(paces)
        n_trials = min(trials, int((end - time.monotonic() - choice) / trial))
        if n_trials < _LEAST_TRIALS:
            found["error"] += f": {max(paces):.2g} s a run"
            return
        verdicts = [audit_callable(mechanism, pairs=pairs, n_trials=n_trials, seed=self._seed, **AUDIT)]
        if verdicts[0].violated:  # first checked twice
            same = [pair for pair in pairs if pair.label == verdicts[0].pair]
            again = self._seed + 10**6
            verdicts.append(audit_callable(mechanism, pairs=same, n_trials=n_trials, seed=again, **AUDIT))
        weakest = min(verdicts, key=lambda verdict: verdict.epsilon_lower_bound)
        found["proved"], found["pair"] = weakest.epsilon_lower_bound, weakest.pair
        found["violated"], found["trials"] = all(each.violated for each in verdicts), n_trials
        del found["error"]


def _mean_with_error(errors: Sequence[float]) -> tuple[float, float | None, int]:
    """Return a mean, its standard error where there is one, and of how many."""
    spread = float(np.std(errors, ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else None
    return float(np.mean(errors)), spread, len(errors)


class _TimeIsUp(BaseException):
    """Ends an attack, which takes every exception for an answer."""


def _replayed(answer: Row) -> Row:
    """Return the least ε that an accountant proves of the releases that a method shows, if it does."""
    certified = answer.get("certified")
    if answer.get("releases"):
        events = [
            SampledGaussianEvent(
                label="a release", noise_multiplier=each["multiplier"], l2_sensitivity=1.0,
                sampling_rate=each["rate"], count=int(each["times"]),
            )
            for each in answer["releases"]
        ]  # fmt: skip
        certified = certified_epsilon(events, AUDIT["delta"])
    if certified is None:
        return {}
    return {"replayed": certified, "violated_replay": certified > _ROUNDING * AUDIT["epsilon"]}
