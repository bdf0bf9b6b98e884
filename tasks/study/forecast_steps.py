"""Numbers and sizes of steps by forecast, from the guesses of a study; no row of its data is read."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import dpalgos
from dpalgos.api import build_params
from dpalgos.tuning.descent import BY_FORECAST, Course, SyntheticTable, choose_steps
from tasks.errors import SpecError
from tasks.own_table.simulated_rows import StatedGuesses
from tasks.problems.problem import RowSource

N_ITERATIONS, STEP_SIZE = "n_iterations", "step_size"
_SEED, _TABLES = 1, 5  # of synthetic tables
_KNOWN: dict[tuple[str, ...], list[SyntheticTable]] = {}  # of this process, by problem and guesses


def is_by_forecast(params: Mapping[str, Any]) -> bool:
    return bool(params.get(N_ITERATIONS) == BY_FORECAST)


def settings_by_forecast(
    estimator: str,
    keywords: Mapping[str, Any],
    budgets: Sequence[Mapping[str, Any]],
    n: int,
    problem: RowSource,
    guesses: StatedGuesses,
) -> list[dict[str, Any]]:
    """Return ``n_iterations`` and ``step_size`` for each budget: ε, δ and calibration."""
    entry = dpalgos.get_estimator(estimator)
    descents: list[Any] = [build_params(entry, {**keywords, **budget}) for budget in budgets]
    tables = _synthetic_tables(problem, guesses, n)
    courses = [Course.of(table, descents[0].clipped_rows(table.X, table.y)) for table in tables]
    settings: list[dict[str, Any]] = [{} for _ in budgets]
    for calibration in dict.fromkeys(descent.calibration for descent in descents):
        at = [i for i, descent in enumerate(descents) if descent.calibration == calibration]
        for i, chosen in zip(at, choose_steps([(descents[i], n) for i in at], courses), strict=True):
            settings[i] = {N_ITERATIONS: chosen.n_iterations, STEP_SIZE: chosen.step_size}
    return settings


def _synthetic_tables(problem: RowSource, guesses: StatedGuesses, n: int) -> list[SyntheticTable]:
    key = problem.model_dump_json(), guesses.model_dump_json(), str(problem.sizes(n)["d"])
    if key not in _KNOWN:
        found = []
        for number in range(_TABLES):
            try:
                found.append(problem.synthetic_table(guesses, n, np.random.default_rng([_SEED, number])))
            except ValueError:  # e.g. a response that has one value
                continue
        if not found:
            raise SpecError(f"{N_ITERATIONS} must be a number: no synthetic table has an estimate")
        _KNOWN[key] = found
    return _KNOWN[key]
