"""Synthetic rows of a table from the declarations of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from data.columns import Column
from dpalgos.central.preconditioned.plan import ROBUST
from dpalgos.errors import InputError
from dpalgos.formula.columns import CategoryColumn, NumberColumn, checked_periods
from dpalgos.formula.design import FormulaDesign
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.row_simulator import Guesses

if TYPE_CHECKING:
    from dpalgos.formula.survival_time import SurvivalTime
    from tasks.own_table.row_simulator import RowSimulator, SimulatedTable

_NONE = "no covariate"  # stands for the covariates where there are none


def declared_as(column: Column) -> NumberColumn | CategoryColumn:
    """Return the declaration of a column, as formulas and simulators need it."""
    if column.categories:
        return CategoryColumn(column.categories)
    cuts = checked_periods(column.periods) if column.periods else ()
    unit = column.resolution or 0.0
    return NumberColumn(column.lower, column.upper, column.center, column.scale, cuts, unit)


def check_guesses(guesses: Guesses, declared: Sequence[Column], others: Sequence[str] = ()) -> Guesses:
    """Return guesses about declared columns, or ``others``, by column; refuse other names."""
    logs = {column.name: column.term for column in declared if column.transform}
    if named := [name for name in (*guesses.mean, *guesses.std, *guesses.effects) if name in logs]:
        raise InputError(
            f"guesses of {named[0]!r} must be of the logarithm that the study declares, got others; write "
            f"those of {logs[named[0]]!r}"
        )
    names = {name for column in declared for name in (column.name, *column.table_columns)}
    return guesses.check(
        {each.name: each.categories for each in declared if each.categories}, names | {*others}
    )


def simulator_of(
    covariates: Sequence[str],
    response: str,
    column: Callable[[str], Column],
    table: AnalystTable | None = None,
    *,
    guesses: Guesses,
    formula: FormulaDesign | None = None,
    **about: Any,
) -> RowSimulator:
    """Return the simulator of a table's columns, which its owner may have declared.

    The owner of a table plans an analysis of it. Its rows are those of a study of effects.
    """
    from tasks.own_table.row_simulator import PREDICTED, STUDIED, RowSimulator

    declared = table.columns if table else ()
    weights = _weights_of(table)
    guesses = check_guesses(guesses, declared, [*covariates, *filter(None, [response]), *weights])
    covariates = formula.reading.right if formula else covariates
    groups = [
        each for each in declared if each.categories and {each.name, *each.table_columns} & set(covariates)
    ]
    indicators = {name for each in groups for name in (each.name, *each.table_columns)}
    numbers = {name: declared_as(column(name)) for name in covariates if name not in indicators}
    last = declared_as(column(response)) if response else None
    return RowSimulator(
        declared=numbers | {each.name: declared_as(each) for each in groups},
        response=response,
        response_column=last if isinstance(last, NumberColumn) else None,
        guesses=guesses,
        formula=formula,
        of_users=bool(table and table.user_id),
        weights=weights,
        usual=STUDIED if table else PREDICTED,
        **about,
    )


def with_tail(guesses: Guesses, targets: Iterable[object]) -> Guesses:
    """Return guesses for intervals of some targets.

    If least squares' coefficients are covered, positive responses are taken to have a long tail. The owner
    may state that they have none, or a mean that is too high for it.
    """
    is_skewed = any(target not in (None, "", ROBUST) for target in targets)
    stated = "skewed" in guesses.model_fields_set
    return guesses if stated or not is_skewed else guesses.model_copy(update={"skewed": True})


def _weights_of(table: AnalystTable | None) -> dict[str, NumberColumn]:
    return {table.weights: NumberColumn(0.0, table.max_weight or 1.0)} if table and table.weights else {}


def simulator_of_times(
    times: SurvivalTime, covariates: Sequence[str], table: AnalystTable, guesses: Guesses
) -> RowSimulator:
    """Return the simulator of persons with times to an event, by main effects of covariates on the hazard."""
    from tasks.own_table.row_simulator import STUDIED, RowSimulator

    weights = _weights_of(table)
    has_levels = any(each.name == times.event and each.categories for each in table.columns)
    return RowSimulator(
        declared={name: times.declared[name] for name in covariates} or {_NONE: NumberColumn(0.0, 1.0)},
        response=times.event,
        response_column=NumberColumn(0.0, 1.0),
        event=times.event_levels if has_levels else None,
        family="logistic",
        usual=STUDIED,
        guesses=check_guesses(guesses, table.columns, [*weights]),
        times=times,
        weights=weights,
        of_users=bool(table.user_id and times.start),
    )


def simulated_table(
    simulator: RowSimulator, n_units: int, table: AnalystTable | None, rng: np.random.Generator
) -> SimulatedTable:
    """Return synthetic rows of so many rows or users of a table, one user after another."""
    if table is None or not table.user_id:
        return simulator.draw(n_units, None, rng)
    simulated = simulator.draw_users(n_units, rng)
    assert simulated.users is not None
    return replace(simulated, table={**simulated.table, table.user_id: simulated.users})
