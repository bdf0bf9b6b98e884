"""Audits of mechanisms of other libraries: a function of a table and a seed, and the (ε, δ) that it claims.

The releases inside the mechanism are unknown. Therefore the distinguishers use its output only: each number,
a quadratic discriminant of all numbers, values that repeat exactly, lengths, values that are not finite, and
failures. As in :mod:`dpalgos.audit.attack`, one event is chosen on some runs and tested on other runs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.audit.attack import AuditVerdict, EventBounds, attack
from dpalgos.audit.distinguishers import Discriminant
from dpalgos.audit.rates import CONFIDENCE
from dpalgos.audit.trials import Pair, Runs
from dpalgos.errors import InputError
from dpalgos.release.checks import check_bound
from dpalgos.typing import FloatArray

Mechanism = Callable[[FloatArray, int], object]

_COORDINATES = 20
_DECIMALS = 9
# Memory limits: numbers in a table, in an output, and in the outputs of all runs on a table.
_LARGEST_TABLE, _LONGEST_ANSWER, _MOST_NUMBERS = 10**6, 1000, 2 * 10**7
_LEAST_LENGTH = 16  # counted for each output


def table_pairs(n_rows: int, n_columns: int, bound: float, *, label: bool = False) -> list[Pair]:
    """Return pairs of neighbors within ±bound that differ as much as one row can, among four kinds of tables.

    If ``label``, the last column is 0 or 1.
    """
    bound = check_bound("bound", bound)
    if n_rows * n_columns > _LARGEST_TABLE:
        raise InputError(
            f"rows times columns must be at most {_LARGEST_TABLE:,}, got {n_rows * n_columns:,}; an audit "
            "needs few rows"
        )
    kinds = {
        "random rows": np.random.default_rng(0).uniform(-bound, bound, (n_rows, n_columns)),
        "rows of zeros": np.zeros((n_rows, n_columns)),
        "rows at a corner": np.full((n_rows, n_columns), bound),
        "rows at the other corner": np.full((n_rows, n_columns), -bound),
    }
    corner, axis = np.full(n_columns, bound), bound * np.eye(1, n_columns)[0]
    flipped = np.append(corner[:-1], -bound)
    rows = {
        "opposite corners": (corner, -corner),
        "opposite responses": (corner, flipped),
        "a corner and zeros": (corner, 0 * corner),
        "opposite points of an axis": (axis, -axis),
    }
    pairs = []
    for kind, table in kinds.items():
        for name, (one, other) in rows.items():
            first, second = table.copy(), table.copy()
            first[0], second[0] = one, other
            if label:
                half = np.arange(n_rows) % 2
                first[1:, -1] = second[1:, -1] = half[1:]
                first[0, -1], second[0, -1] = one[-1] > 0, other[-1] > 0
            if not np.array_equal(first, second):
                pairs.append(Pair(f"{name} among {kind}", first, None, second, None))
    return pairs


def audit_callable(
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    pairs: Sequence[Pair],
    n_trials: int,
    mu: float = np.nan,
    seed: int = 0,
) -> AuditVerdict:
    """Attack a mechanism with ``n_trials`` runs on each of two neighbors, and about as many to choose them.

    The mechanism maps a table and a seed to numbers of any shape. Seeds count up from ``seed``. An exception
    counts as an output, unless the mechanism fails or returns no number in every run. The claimed δ may be 0.
    ``mu`` is a claim of Gaussian DP.
    """
    check_budget(epsilon, delta or 1e-12)
    if n_trials * _LEAST_LENGTH > _MOST_NUMBERS:
        raise InputError(f"trials must be at most {_MOST_NUMBERS // _LEAST_LENGTH:,}, got {n_trials:,}")
    seeds = iter(range(seed, 2**62))
    has_output: list[bool] = []
    reasons: list[str] = []

    def runs(pair: Pair, n: int) -> Iterator[tuple[Answers, Answers]]:
        both = Answers.of(mechanism, pair.X, seeds, n), Answers.of(mechanism, pair.other_X, seeds, n)
        reasons.extend(each.reason for each in both)
        has_output.append(not all(each.silent for each in both))
        yield both

    bounds = EventBounds(n_trials, delta, mu)
    attacked = attack(pairs, runs, _Lens, bounds)
    if attacked is None or not any(has_output):
        why = next(filter(None, reasons), "it returns no finite number" if pairs else "there are no pairs")
        raise InputError(
            f"the mechanism returns nothing on any pair of neighbors: {why}; correct it, or the pairs"
        )
    hits, false_hits = attacked.counts
    return AuditVerdict(
        epsilon=epsilon,
        delta=delta,
        epsilon_lower_bound=attacked.proved[0],
        confidence=CONFIDENCE,
        n_trials=n_trials,
        pair=attacked.pair.label,
        distinguisher=attacked.event.name,
        true_positive_rate=hits / n_trials,
        false_positive_rate=false_hits / n_trials,
        mu=mu,
        mu_lower_bound=attacked.proved[1],
    )


@dataclass(frozen=True, eq=False)
class Answers:
    """Outputs of runs on one table, (k, R), padded with NaN; which runs failed, (R,), and the reason."""

    values: FloatArray
    lengths: FloatArray
    failed: FloatArray
    reason: str

    @classmethod
    def of(cls, mechanism: Mechanism, table: FloatArray, seeds: Iterator[int], n: int) -> "Answers":
        rows: list[FloatArray] = []
        failed, reason = np.zeros(n), ""
        for k in range(n):
            try:
                rows.append(_numbers(mechanism(table.copy(), next(seeds))))
            except (Exception, SystemExit) as error:
                failed[k], reason = 1.0, f"{type(error).__name__}: {error}"
                rows.append(np.zeros(0))
            _check_length(len(rows[-1]), n)
        lengths = np.array([len(row) for row in rows], dtype=float)
        values = np.full((max(1, int(lengths.max())), n), np.nan)
        for k, row in enumerate(rows):
            values[: len(row), k] = row
        return cls(values, lengths, failed, reason)

    @property
    def silent(self) -> bool:
        """Whether no run returned a number."""
        return not np.isfinite(self.values).any()

    def of_length(self, length: int) -> FloatArray:
        """Return the values, cut or padded to a length."""
        values = self.values[:length]
        return np.concatenate([values, np.full((length - len(values), values.shape[1]), np.nan)])


def _numbers(answer: object) -> FloatArray:
    if answer is None:
        raise TypeError("it returned None")
    return np.asarray(answer, dtype=float).ravel()


def _check_length(length: int, n_runs: int) -> None:
    most = min(_LONGEST_ANSWER, _MOST_NUMBERS // n_runs)
    if length > most:
        raise InputError(
            f"an output must have at most {most:,} numbers in {n_runs:,} runs, got {length:,}; return "
            "a part of it"
        )


class _Lens:
    """All scores of outputs, fitted to separate runs."""

    def __init__(self, first: Answers, second: Answers) -> None:
        self._length = max(len(first.values), len(second.values))
        both = [Runs([], [], answers.of_length(self._length)) for answers in (first, second)]
        with np.errstate(all="ignore"):
            self._discriminant = Discriminant(*both)
        self._atoms = [_atoms(runs.answer) for runs in both]

    def __call__(self, answers: Answers) -> dict[str, FloatArray]:
        values = answers.of_length(self._length)
        scores = {
            "whether it fails": answers.failed,
            "the length of the output": answers.lengths,
            "values that are not finite": np.sum(~np.isfinite(values), axis=0).astype(float),
            "values that repeat": np.subtract(*(np.sum(values == atoms, axis=0) for atoms in self._atoms)),
            "the output": self._discriminant(Runs([], [], values)),
        }
        for j in range(min(self._length, _COORDINATES)):
            scores[f"number {j + 1} of the output"] = values[j]
            scores[f"size of number {j + 1} of the output"] = np.abs(values[j])
        return {
            name: np.round(np.nan_to_num(score, nan=0.0, posinf=1e300, neginf=-1e300), _DECIMALS)
            for name, score in scores.items()
        }


def _atoms(values: FloatArray) -> FloatArray:
    """Return each entry's most frequent value, (k, 1); NaN if no value occurs twice."""
    columns = np.full((len(values), 1), np.nan)
    for j, row in enumerate(values):
        known, counts = np.unique(row[np.isfinite(row)], return_counts=True)
        if counts.size and counts.max() > 1:
            columns[j] = known[np.argmax(counts)]
    return columns
