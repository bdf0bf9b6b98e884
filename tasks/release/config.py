"""The TOML file that asks for a release: its columns, public bounds and settings, read and checked."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from data.store.folders import read_small
from dpalgos import get_estimator
from dpalgos.params import check_settings, describe
from tasks.faults import SpecError
from tasks.field_faults import field_fault
from tasks.problems.analyst_table import AnalystTable
from tasks.strict import Strict
from tasks.study.study_file import load_study


class _Dataset(Strict):
    name: str
    study: str = ""


class _Columns(Strict):
    x: tuple[str, ...] = Field(default=(), min_length=1)
    y: str | None = None
    user_id: str | None = None


class ReleaseConfig(Strict):
    """A release's TOML file: the ledger's name for the data, columns, public bounds, settings.

    ``dataset.study`` is a study file, by its path from this file, that declares the columns: they are put
    into its public units, and a regression gets an intercept. ``columns.x`` may then be left out: all
    declared columns but the response.
    """

    dataset: _Dataset
    columns: _Columns
    bounds: dict[str, Any] = Field(default={})
    params: dict[str, Any] = Field(default={})


Config = TypeVar("Config", bound=Strict)


def read_release(config: Path, interval: float | None = None) -> tuple[ReleaseConfig, AnalystTable | None]:
    """Read a release file: its request, its columns, and the declarations that it names, if any.

    ``interval`` is the level of intervals, where the command line gives one.

    Raises
    ------
    SpecError
        In one sentence.
    """
    asked, declared_table = read_config(config, ReleaseConfig), None
    if asked.dataset.study:
        declared_table = load_study(config.parent / asked.dataset.study).analyst_table
        if declared_table is None:
            raise SpecError(
                f"dataset.study must be a study file with its own [data], got {asked.dataset.study!r}; take "
                "one that dpcost init wrote"
            )
    columns = asked.columns
    if declared_table and not columns.x:
        declared = tuple(column.name for column in declared_table.columns if column.name != columns.y)
        asked = asked.model_copy(update={"columns": columns.model_copy(update={"x": declared})})
    if not asked.columns.x:
        raise SpecError('columns.x must name at least one column, got none; add e.g. x = ["age"]')
    _check_columns(asked.columns)
    if interval is not None:
        asked = asked.model_copy(update={"params": _with_interval(asked.params, interval)})
    return asked, declared_table


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read and check a TOML file of a user's: that of a release, or of a local protocol.

    Raises
    ------
    SpecError
        In one sentence.
    """
    try:
        return kind(**tomllib.loads(read_small(path).decode()))
    except OSError as error:
        raise SpecError(f"cannot read the config {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SpecError(f"{path.name}: {field_fault(where, first)}; see the README for an example") from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path} is not a TOML file: {error}") from None


def public_keywords(
    bounds: dict[str, Any], params: dict[str, Any], estimator: str, instead: str
) -> dict[str, Any]:
    """Return bounds and settings as keywords; a bound must be declared where it counts as public.

    ``instead`` says what decides the budget, for the message.
    """
    for table, settings in (("bounds", bounds), ("params", params)):
        check_settings(table, settings, instead)
    for name, value in bounds.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            raise SpecError(
                f"bounds.{name} must be a number that is public, got {value!r}; a bound read from the data "
                "would be a release of its own, so declare one from general knowledge"
            )
        if isinstance(value, list) and len(value) == 2 and not value[0] <= value[1]:
            raise SpecError(
                f"bounds.{name} must be [lower, upper] with lower <= upper, got {value}; swap them"
            )
    for name in params:
        if is_bound(name):
            raise SpecError(
                f"params.{name} must stand in [bounds], which declares it public; move it there, with a "
                "value that does not come from the data"
            )
    needed = [item["name"] for item in describe(get_estimator(estimator).parameters) if item["required"]]
    for name in needed:
        if is_bound(name) and name not in bounds:
            raise SpecError(
                f"bounds.{name} must be declared public for {estimator}, got none; add a number that does "
                "not come from the data"
            )
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in {**bounds, **params}.items()
    }


def _with_interval(params: dict[str, Any], level: float) -> dict[str, Any]:
    if "interval" in params and params["interval"] != level:
        raise SpecError(
            f"params.interval must agree with --interval {level:g}, got {params['interval']!r}; drop one"
        )
    return {**params, "interval": level}


def is_bound(keyword: str) -> bool:
    """Whether a keyword is a claim about the data, which must be public."""
    return keyword.endswith(("_bound", "_bounds", "_norm", "_radius")) or keyword in (
        "center",
        "radius",
        "samples_per_user",
    )


def _check_columns(columns: _Columns) -> None:
    names = [*columns.x, *filter(None, (columns.y, columns.user_id))]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"columns must name each column once, got {name!r} twice; take one out")
