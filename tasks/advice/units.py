"""Whose declared units an answer's error depends on: public arithmetic."""

from collections.abc import Sequence
from dataclasses import fields

from dpalgos import InputError, get_estimator
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.api import build_params
from dpalgos.central.preconditioned_regression import PreconditionedRegressionParams
from dpalgos.intervals.preconditioned_models import PreconditionedGLMParams
from dpalgos.mechanisms.column_counts import UNITS
from dpalgos.params import Params
from tasks.advice.forecasts import Forecast
from tasks.advice.made_up_tables import on_a_table
from tasks.size_rules import delta_at
from tasks.study.spec import StudySpec

_MANY = 8  # columns are not listed by name


def columns_in_declared_units(
    params: Params, n_rows: int, n_features: int, numbers: Sequence[str], response: str
) -> tuple[str, ...]:
    """Return which columns of numbers stay in their declared units, on which the answer's error depends.

    All of them, where an estimator cuts rows, columns or responses to public bounds. ``n_features`` counts
    the constant and columns of categories, ``response`` is "" where it has no unit.
    """
    every = (*numbers, *([response] if response else []))
    if isinstance(params, PreconditionedRegressionParams):
        size = gaussian_mu(params.epsilon, params.delta) * n_rows
        # Units are found of so many of the last columns of [x, y].
        found = params.schedule(size, n_features, None).origin_columns.get(UNITS, 0)
        return every[: max(len(every) - found, 0)]
    if isinstance(params, PreconditionedGLMParams):
        size = gaussian_mu(params.epsilon, params.delta) * n_rows
        matter = not (params.is_constant(size, n_features) or params.column_shares(size, n_features))
        return tuple(numbers) if matter else ()
    return every if any(one.name.endswith("_bound") for one in fields(params)) else ()


def units_sentence(
    params: Params, n_rows: int, n_features: int, numbers: Sequence[str], response: str
) -> str:
    """Say whose units matter and what to declare; "" where those of no column do."""
    columns = columns_in_declared_units(params, n_rows, n_features, numbers, response)
    if not columns:
        return ""
    listed = ", ".join(columns) if len(columns) < _MANY else f"{len(columns)} columns of numbers"
    return (
        f"units matter of {listed}: declare center and scale near to mean and standard deviation, as far as "
        "these are public"
    )


def units_of_advice(spec: StudySpec, best: Forecast) -> str:
    """Return that sentence for the estimator that is advised."""
    problem = spec.head_panel.problem
    item = next(
        each
        for each in spec.estimators_of(spec.head_panel)
        if (each.name, each.form) == (best.estimator, best.form)
    )
    sizes = problem.sizes(best.n)
    budget = {"epsilon": best.epsilon, "delta": delta_at(spec.headline.delta, best.n)}
    try:
        params = build_params(get_estimator(item.name), {**item.keywords(sizes, best.steps), **budget})
    except InputError:
        return ""
    return units_sentence(params, best.n, sizes["d"], *numbers_of(spec))


def numbers_of(spec: StudySpec, columns: Sequence[str] = ()) -> tuple[tuple[str, ...], str]:
    """Return the study's covariates that are numbers, or those of ``columns``, and a linear response."""
    declared = on_a_table(spec, spec.head_panel).declared_rows(spec.guesses)
    numbers = (each.name for each in declared.numbers if each.name != declared.offset)
    known = spec.analyst_table.columns if spec.analyst_table else ()
    used = {*columns, *(name for each in known if each.name in columns for name in each.uses)}
    names = tuple(name for name in numbers if not columns or name in used)
    return names, declared.response.name if declared.response and not declared.family else ""
