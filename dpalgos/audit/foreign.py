"""Audits of mechanisms of other libraries: a function of a table and a seed, and the (ε, δ) that it claims.

The releases inside the mechanism are unknown. Therefore the adversary of :mod:`dpalgos.audit.attack` sees its
outputs only: their numbers and lengths, and failures.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.audit.attack import AuditResult, attack
from dpalgos.audit.trials import Pair, Runs
from dpalgos.errors import InputError
from dpalgos.release.checks import check_bound
from dpalgos.typing import FloatArray

Mechanism = Callable[[FloatArray, int], object]

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
) -> AuditResult:
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

    def runs(pair: Pair, n: int) -> Iterator[tuple[Runs, Runs]]:
        (first, *why), (second, *other) = (
            _runs_on(mechanism, table, seeds, n) for table in (pair.X, pair.other_X)
        )
        reasons.extend([*why, *other])
        has_output.append(any(np.isfinite(each.answer).any() for each in (first, second)))
        yield first, second

    claim: dict[str, Any] = {
        "epsilon": epsilon,
        "claimed_epsilon": epsilon,
        "delta": delta,
        "mu": mu,
        "n_trials": n_trials,
    }
    result = attack(AuditResult(**claim), pairs, runs)
    if result is None or not any(has_output):
        why = next(filter(None, reasons), "it returns no finite number" if pairs else "there are no pairs")
        raise InputError(
            f"the mechanism returns nothing on any pair of neighbors: {why}; correct it, or the pairs"
        )
    return result


def _runs_on(mechanism: Mechanism, table: FloatArray, seeds: Iterator[int], n: int) -> tuple[Runs, str]:
    """Return runs on one table, whose outputs (k, R) are padded with NaN, and the reason of a failure."""
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
    return Runs([], [], values, {"whether it fails": failed, "the length of the output": lengths}), reason


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
