"""Private tables by group of a data frame: survival curves, and the baseline table of a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.answers.baseline import BaselineTable
from dpalgos.api import estimate
from dpalgos.errors import AccuracyWarning, InputError, unknown_name, warn
from dpalgos.formula.columns import (
    Declared,
    NumberColumn,
    clipped,
    column_of,
    declared_columns,
    unclipped_rows,
)
from dpalgos.formula.fit import ROW_OF_PERSON
from dpalgos.formula.group_table import GroupNumbers, group_numbers, noise_std_of
from dpalgos.formula.time_to_event import declared_times
from dpalgos.release.checks import check_positive, check_probability
from dpalgos.release.noise_source import generator_of
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows
from dpalgos.rows.units import count_users
from dpalgos.spelling import as_spelled, check_by_column
from dpalgos.survival.curves import SurvivalCurves
from dpalgos.typing import FloatArray

_NUMBERS_AT_ONCE = 2**22
_OPTIONS = (
    "epsilon",
    "delta",
    "bounds",
    "levels",
    "impute",
    "budget",
    "random_state",
    "interval",
    "calibration",
)


def survival(
    formula: str,
    frame: Any,
    *,
    periods: Sequence[float] | None = None,
    resolution: float | None = None,
    user: str | None = None,
    **options: Any,
) -> SurvivalCurves:
    """Release survival curves by group.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ arm"``, by the levels of a category; ``"Surv(time, event) ~ 1"`` for all.
    frame : pandas.DataFrame or mapping of arrays
        A row per person.
    user : str, optional
        The column of persons. The guarantee is then for persons, and a person with two rows is refused.
        Without it, the guarantee is for rows: each is taken as a person.
    periods : sequence of float, optional
        Public cut points. By default, sixteen periods of equal length up to the upper bound of the time.
    resolution : float, optional
        The public number of which recorded times are multiples, such as 1 for whole years. An event at t then
        happened in the time of that length before t, on average in its middle.
    **options
        ``epsilon``, ``delta``, ``bounds``, ``levels``, ``impute``, ``budget`` and ``random_state``;
        ``interval``, the level of pointwise limits, by default 0.95.

    Returns
    -------
    SurvivalCurves
        Curves, numbers at risk, the logrank test and restricted means, from one release of counts.
    """
    columns = declared_times(formula, periods, resolution, options)
    persons = None if user is None else column_of(frame, user, "user")
    curves: SurvivalCurves = _released("survival", formula, frame, columns, persons, **options)
    for caution in curves.cautions:
        warn(caution, AccuracyWarning)
    return curves


def table_one(
    formula: str,
    frame: Any,
    *,
    user: str | None = None,
    resolution: Mapping[str, float] | None = None,
    **options: Any,
) -> BaselineTable:
    """Release the baseline table of a paper ("Table 1"): a row per variable, a column per group.

    Parameters
    ----------
    formula : str
        ``"arm ~ age + stage"``: the groups, and the variables.
    frame : pandas.DataFrame or mapping of arrays
        A row per person, or several if ``user`` names their column.
    user : str, optional
        The column of the person of each row. The guarantee is then for persons, and the m rows of a person
        count 1/m each. Without it, the guarantee is for rows.
    resolution : mapping of str to float, optional
        By numeric variable, the public number of which its values are multiples, such as 1 for whole numbers.
        Quartiles and their limits are then multiples, too.
    **options
        ``epsilon``, ``delta``, ``bounds``, ``levels``, ``budget`` and ``random_state``; ``interval``, the
        level of limits, by default 0.95; ``impute``, as in :func:`dpalgos.formula.ols`. Missing cells of an
        imputed variable are counted, and its other statistics are of persons with a value. The constant
        replaces missing groups only.

    Returns
    -------
    BaselineTable
        Sizes of groups, shares of levels, means, standard deviations and quartiles, from one release of sums.
    """
    declarations = {key: options.pop(key, None) for key in ("bounds", "levels", "impute")}
    columns = declared_columns("gaussian", formula, **declarations)
    for name, step in as_spelled(check_by_column("resolution", resolution), columns).items():
        if not isinstance(number := columns.get(name), NumberColumn):
            raise InputError(f"resolution goes with bounds, got {name!r} without; add its bounds")
        columns[name] = replace(number, resolution=check_positive(f"resolution[{name!r}]", step))
    persons = None if user is None else column_of(frame, user, "user")
    table: BaselineTable = _released("table1", formula, frame, columns, persons, **options)
    for caution in table.cautions:
        warn(caution, AccuracyWarning)
    return table


def _released(
    kind: str,
    formula: str,
    frame: Any,
    declared: Declared,
    persons: Any,
    *,
    interval: float | None = None,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> Any:
    """Release a table of rows, or of persons if there are any."""
    for name in options:
        if name not in _OPTIONS:
            raise InputError(unknown_name("keyword", name, _OPTIONS))
    if interval is not None:
        check_probability("interval", interval)
    numbers = group_numbers(kind, formula, declared)
    unclipped = unclipped_rows(frame, numbers.declared)
    rows = clipped(unclipped, numbers.declared)
    rng = generator_of(random_state, in_budget=options.get("budget") is not None)
    facts: dict[str, Any] = {"rng": rng, **numbers.keywords, **options}
    if numbers.survival:
        result = estimate(numbers.estimator, _curve_sample(numbers, rows, persons), **facts)
        if persons is None:
            result = replace(result, about=replace(result.about, unit=ROW_OF_PERSON))
    else:
        result = estimate(numbers.estimator, _table_sample(numbers, unclipped, rows, persons), **facts)
    certificate = {
        "promise": result.promise,
        "events": result.events,
        "certified_epsilon": result.certified_epsilon,
    }
    return numbers.result(
        result.estimate, noise_std_of(result.events), result.about.n, interval, **certificate
    )


def _table_sample(
    numbers: GroupNumbers, unclipped: Mapping[str, Any], rows: Mapping[str, Any], persons: Any
) -> Sample:
    """Return the sample of a baseline table, with marks of the numbers that were clipped."""
    X = numbers.matrix(rows)
    moved = np.zeros(X.shape, dtype=np.int8)
    for column, (name,) in numbers.sources.items():
        moved[:, numbers.names.index(column)] = unclipped[name] != rows[name]
    return Sample(X, moved=moved, user_ids=persons)


def _curve_sample(numbers: GroupNumbers, rows: Mapping[str, Any], persons: Any) -> Sample:
    """Return the sample of a table with one row per person, whose wide rows are made block by block."""
    n = len(next(iter(rows.values())))
    if persons is not None and count_users(persons, n) < n:
        raise InputError(
            "user must be a column in which each person has one row, got a person with several; survival "
            "needs the follow-up of a person in one row: join the rows, or call phreg with start and stop"
        )
    size = max(1, _NUMBERS_AT_ONCE // len(numbers.names))

    def blocks() -> Iterator[FloatArray]:
        for start in range(0, n, size):
            yield numbers.matrix({name: each[start : start + size] for name, each in rows.items()})

    X = numbers.matrix(rows) if n <= size else StreamedRows(blocks, n)
    return Sample(X, relation=Relation.CENTRAL if persons is None else Relation.USER)
