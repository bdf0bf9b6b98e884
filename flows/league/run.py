"""Fit every method to every table at every ε, attack each, and merge the results of several machines.

The error of coefficients is the share of what a regression can explain that they miss:

    (mean loss − least mean loss) / (mean loss of the constant alone − least mean loss)

0 for the answer without privacy, 1 for the constant alone, at most 100; the loss is the squared error or
minus the log-likelihood, on all rows, which are what is protected. It is compared as a ratio to the least one
of the same table and ε, and an error below a thousandth counts as that.
"""

import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from dpalgos.audit.foreign import audit_callable, table_pairs
from dpalgos.errors import InputError
from flows.league.environments import interpreter
from flows.league.tables import LeagueTable, load
from flows.league.worker_process import Method, Worker
from flows.record.progress import say
from tasks.faults import SpecError

EPSILONS = (1.0, 0.1, 10.0, 0.5, 3.0)  # in this order, if time is short
REPETITIONS = 3
MOST_ERROR, LEAST_ERROR = 100.0, 1e-3
AUDIT: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
_AUDIT_ROWS, _AUDIT_SHARE, _LEAST_TRIALS = 10, 0.5, 100  # the share: of a method's time
_AUDIT_RUNS = 6  # per trial: to choose the pair and the event, and to test it

Row = dict[str, Any]


def league(
    methods: Sequence[Method],
    names: Sequence[str],
    *,
    minutes: float,
    folder: Path,
    seed: int = 0,
    trials: int = 1000,
) -> Row:
    """Return the results of all methods on all tables, one method at a time on each core.

    A method has the time of a core that is left, divided by the methods that are.
    """
    tables = {name: found for name in names if (found := _loaded(name, folder)) is not None}
    for requires in dict.fromkeys(method.requires for method in methods):
        with suppress(SpecError):  # each of its methods will say so
            interpreter(requires, folder)
    cores, deadline = os.cpu_count() or 1, time.monotonic() + 60 * minutes
    waiting = list(methods)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(cores) as pool:
        order = sorted(tables.values(), key=lambda table: table.X.size)
        prepared = [(table, Path(place) / f"{table.name}.npz", Scale(table)) for table in order]
        for table, path, _ in prepared:
            np.savez(path, **table.arrays())

        def of_method(method: Method) -> Row:
            left = (deadline - time.monotonic()) * min(cores, len(waiting)) / len(waiting)
            waiting.remove(method)
            return _of_method(method, prepared, left, folder, {"seed": seed, "n_trials": trials})

        parts = list(pool.map(of_method, methods))
    return {
        "rows": [row for part in parts for row in part["rows"]],
        "audits": [part["audit"] for part in parts],
        "methods": {m.name: {"ours": m.ours, "library": m.library, "file": m.file.name} for m in methods},
        "tables": {
            name: {"family": t.family, "source": t.source, "n": len(t.X), "d": t.X.shape[1]}
            for name, t in tables.items()
        },
        "machines": [
            f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}"
        ],
    }


def merged(results: Sequence[Row]) -> Row:
    """Return the results of several machines as one; of what two have measured, the first counts."""
    whole: Row = {"rows": [], "audits": [], "methods": {}, "tables": {}, "machines": []}
    for one in results:
        for part, key in (("rows", ("table", "method", "epsilon")), ("audits", ("method",))):
            known = {tuple(row[name] for name in key) for row in whole[part]}
            whole[part] += [row for row in one[part] if tuple(row[name] for name in key) not in known]
        for part in ("methods", "tables"):
            whole[part] = {**one[part], **whole[part]}
        whole["machines"] += [machine for machine in one["machines"] if machine not in whole["machines"]]
    return whole


def _loaded(name: str, folder: Path) -> LeagueTable | None:
    try:
        return load(name, folder)
    except SpecError as error:
        say(f"note: {error}; it is left out")
        return None


class Scale:
    """The losses of a table's regression between which errors are measured."""

    def __init__(self, table: LeagueTable) -> None:
        self._family, self._y = table.family, table.y
        self._X = np.column_stack([table.X, np.ones(len(table.X))])
        self._least, self._constant = (self._loss(coef) for coef in self._ends())

    def error(self, coef: Sequence[float]) -> float:
        """Return the share of what can be explained that coefficients miss, at most 100; NaN becomes that."""
        if len(coef) != self._X.shape[1]:
            return MOST_ERROR
        missed = (self._loss(np.array(coef)) - self._least) / max(self._constant - self._least, 1e-12)
        return float(np.clip(np.nan_to_num(missed, nan=MOST_ERROR), 0, MOST_ERROR))

    def _loss(self, coef: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            u = self._X @ coef
            if self._family == "linear":
                return float(np.mean((self._y - u) ** 2))
            if self._family == "logistic":
                return float(np.mean(np.logaddexp(0, u) - self._y * u))
            return float(np.mean(np.exp(u) - self._y * u))

    def _ends(self) -> Iterator[np.ndarray]:
        """Yield the coefficients without privacy, and those of the constant alone."""
        X, y, mean = self._X, self._y, self._y.mean()
        constant = np.zeros(X.shape[1])
        if self._family == "linear":
            yield np.linalg.lstsq(X, y, rcond=None)[0]
            constant[-1] = mean
        elif self._family == "logistic":
            yield LogisticRegression(C=1e5, fit_intercept=False, max_iter=2000).fit(X, y).coef_[0]
            constant[-1] = np.log(mean / (1 - mean))
        else:
            yield PoissonRegressor(alpha=1e-8, fit_intercept=False, max_iter=2000).fit(X, y).coef_
            constant[-1] = np.log(mean)
        yield constant


def _of_method(
    method: Method, tables: Sequence[tuple[LeagueTable, Path, Scale]], seconds: float, folder: Path, how: Row
) -> Row:
    """Return a method's rows and its audit, within so many seconds; what is left undone says so."""
    own = [each for each in tables if each[0].family in method.families]
    rows: list[Row] = []
    try:
        worker = Worker(method, folder)
    except SpecError as error:
        failed = [_row(method, t, epsilon, error=str(error)) for epsilon in EPSILONS for t, _, _ in own]
        return {"rows": failed, "audit": {"method": method.name, "error": str(error)}}
    began = time.monotonic()
    with worker:
        audit = _audited(method, worker, _AUDIT_SHARE * seconds, **how)
        for epsilon in EPSILONS:
            for table, path, scale in own:
                left = seconds - (time.monotonic() - began)
                if left <= 0:
                    rows.append(_row(method, table, epsilon, error="no time was left for it"))
                    continue
                worker.load(path)
                rows.append(_measured(method, worker, table, scale, epsilon, left, how["seed"]))
    say(f"{method.name}: {sum('value' in row for row in rows)} of {len(rows)} answered")
    return {"rows": rows, "audit": audit}


def _measured(
    method: Method, worker: Worker, table: LeagueTable, scale: Scale, epsilon: float, left: float, seed: int
) -> Row:
    errors: list[float] = []
    seconds: list[float] = []
    budget = {"epsilon": epsilon, "delta": len(table.X) ** -2.0}
    for repetition in range(REPETITIONS):
        answer = worker.fit(method, left, **budget, seed=seed + repetition)
        if "error" in answer:
            return _row(method, table, epsilon, error=answer["error"])
        errors.append(scale.error(answer["coef"]))
        seconds.append(answer["seconds"])
        if sum(seconds) > left / 20:
            break
    spread = float(np.std(errors, ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else None
    found = {"value": float(np.mean(errors)), "standard_error": spread}
    return _row(method, table, epsilon, **found, seconds=float(np.median(seconds)), repetitions=len(errors))


def _row(method: Method, table: LeagueTable, epsilon: float, **found: Any) -> Row:
    return {"table": table.name, "method": method.name, "family": table.family, "epsilon": epsilon, **found}


def _audited(method: Method, worker: Worker, seconds: float, seed: int, n_trials: int) -> Row:
    """Return the most that attacks prove at ε = 1, on covariates from −1 to 1 and from 0 to 1."""
    found = [_attacked(method, worker, low, seconds / 2, seed, n_trials) for low in (-1.0, 0.0)]
    return max(found, key=lambda one: one.get("proved", -1.0))


def _attacked(method: Method, worker: Worker, low: float, seconds: float, seed: int, n_trials: int) -> Row:
    """Attack a method whose covariate is in [low, 1]; a violated claim again, with other seeds."""
    family = method.families[0]
    label = family != "linear"
    pairs = table_pairs(_AUDIT_ROWS, 2, 1.0, label=label)
    ends: Row = {"lower": np.array([low]), "upper": np.ones(1), "y_lower": -float(not label), "y_upper": 1.0}

    def mechanism(rows: np.ndarray, seed: int) -> object:
        X = low + (rows[:, :-1] + 1) * (1 - low) / 2
        answer = worker.fit(method, **AUDIT, seed=seed, X=X.tolist(), y=rows[:, -1].tolist())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["coef"]

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "audit.npz"
        np.savez(path, X=np.zeros((_AUDIT_ROWS, 1)), y=np.zeros(_AUDIT_ROWS), family=family, **ends)
        worker.load(path)
        try:
            mechanism(pairs[0].X, seed)  # what it imports and compiles
            start = time.monotonic()
            for again in (1, 2, 3):
                mechanism(pairs[0].X, seed + again)
            of_one = (time.monotonic() - start) / 3
            asked = {**AUDIT, "n_trials": min(n_trials, int(seconds / of_one / _AUDIT_RUNS))}
            if asked["n_trials"] < _LEAST_TRIALS:
                return {"method": method.name, "error": f"too slow to attack: {of_one:.2g} s a run"}
            found = [audit_callable(mechanism, pairs=pairs, seed=seed, **asked)]
            if found[0].violated:  # first checked twice
                found.append(audit_callable(mechanism, pairs=pairs, seed=seed + 10**6, **asked))
        except (RuntimeError, InputError) as error:
            return {"method": method.name, "error": str(error)[:200]}
    proved = min(verdict.epsilon_lower_bound for verdict in found)
    violated = all(verdict.violated for verdict in found)
    return {"method": method.name, "proved": proved, "violated": violated, "trials": asked["n_trials"]}
