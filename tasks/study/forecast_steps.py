"""Numbers and sizes of steps by forecast, from the guesses of a study; no row of its data is read."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter

import dpalgos
from dpalgos.api import build_params
from dpalgos.models.families import family_class
from dpalgos.planned import example_of
from dpalgos.tuning.descent import BY_FORECAST, Course, SyntheticTable, choose_steps
from tasks.errors import SpecError
from tasks.own_table.row_simulator import Guesses
from tasks.problems.kinds import AnyProblem
from tasks.problems.problem import RowSource
from tasks.study.estimators import EstimatorSpec

T = TypeVar("T")
N_ITERATIONS, STEP_SIZE = "n_iterations", "step_size"
_SEED, _TABLES = 1, 5  # of synthetic tables
_KNOWN: dict[str, Any] = {}  # of this process: synthetic tables, courses and settings, by all they depend on


def settings_by_forecast(
    estimator: str,
    keywords: Mapping[str, Any],
    budgets: Sequence[Mapping[str, Any]],
    n: int,
    problem: RowSource,
    guesses: Guesses,
) -> list[dict[str, Any]]:
    """Return the settings that a forecast chooses for each budget: ε, δ and calibration."""
    of_tables = [problem.model_dump_json(), guesses.model_dump_json(), problem.sizes(n)["d"]]
    of_courses = [*of_tables, estimator, keywords]

    def choose() -> list[dict[str, Any]]:
        entry = dpalgos.get_estimator(estimator)
        descents: list[Any] = [build_params(entry, {**keywords, **budget}) for budget in budgets]
        tables = _once(of_tables, lambda: _synthetic_tables(problem, guesses, n))
        if hasattr(descents[0], "forecast_settings"):
            return [each.forecast_settings(tables, n) for each in descents]
        courses = _once(
            of_courses,
            lambda: [Course.of(table, descents[0].clipped_loss(table.X, table.y)) for table in tables],
        )
        settings: list[dict[str, Any]] = [{} for _ in budgets]
        for calibration in dict.fromkeys(descent.calibration for descent in descents):
            at = [i for i, descent in enumerate(descents) if descent.calibration == calibration]
            for i, chosen in zip(at, choose_steps([(descents[i], n) for i in at], courses), strict=True):
                every = {N_ITERATIONS: chosen.n_iterations, STEP_SIZE: round(chosen.step_size, 4)}
                settings[i] = {name: every[name] for name in entry.parameters.by_forecast}
        return settings

    return _once([*of_courses, n, list(budgets)], choose)


def settings_of_example(
    estimator: str, sizes: Mapping[str, int], budget: Mapping[str, float], family: str = ""
) -> dict[str, dict[str, Any]]:
    """Return what a forecast chooses by calibration, for an estimator's example keywords; {} without a rule.

    ``sizes`` are n and d, ``budget`` ε and δ. The rows are of the model `uniform_glm`: d columns uniform on
    ±1, and coefficients of length 1.
    """
    entry = dpalgos.get_estimator(estimator)
    if not (rules := entry.parameters.by_forecast):
        return {}
    params = {**example_of(entry, family), **dict.fromkeys(rules, BY_FORECAST)}
    family = params.get("family", family)
    if family and family_class(family).needs_classes:
        return {}  # the model has no classes
    stated = {"kind": "simulation", "model": "uniform_glm", "d": sizes["d"]}
    problem: Any = TypeAdapter(AnyProblem).validate_python(
        {**stated, "settings": {"family": family or "gaussian"}}
    )
    item = EstimatorSpec.model_validate(
        {"name": estimator, "params": params, "calibrations": entry.calibrations}
    )
    budgets = [{**budget, "calibration": each} for each in item.calibrations]
    keywords = item.keywords(problem.sizes(sizes["n"]))
    chosen = settings_by_forecast(estimator, keywords, budgets, sizes["n"], problem, Guesses())
    return dict(zip(item.calibrations, chosen, strict=True))


def _once(key: Sequence[Any], compute: Callable[[], T]) -> T:
    """Return the result for a key, computed once in this process."""
    name = json.dumps(key, sort_keys=True)
    if name not in _KNOWN:
        _KNOWN[name] = compute()
    result: T = _KNOWN[name]
    return result


def _synthetic_tables(problem: RowSource, guesses: Guesses, n: int) -> list[SyntheticTable]:
    tables = []
    for number in range(_TABLES):
        try:
            tables.append(problem.synthetic_table(guesses, n, np.random.default_rng([_SEED, number])))
        except ValueError:  # e.g. a response that has one value
            continue
    if not tables:
        raise SpecError(f"{N_ITERATIONS} must be a number: no synthetic table has an estimate")
    return tables
