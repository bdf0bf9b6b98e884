"""The TOML file that asks for a release: its columns, public bounds and settings, read and checked."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from dpalgos import get_estimator
from dpalgos.params import check_settings, describe
from tasks.faults import SpecError
from tasks.problems.analyst_table import AnalystTable
from tasks.problems.public_rows import PublicTable
from tasks.strict import Strict, field_fault
from tasks.study.panel import takes_public_rows
from tasks.study.spec import StudySpec
from tasks.study.study_file import load_study, read_toml, refuse_unfinished


class _Dataset(Strict):
    name: str
    study: str = ""
    form: str = ""


class _Columns(Strict):
    x: tuple[str, ...] = Field(default=(), min_length=1)
    y: str | None = None
    user_id: str | None = None


class ReleaseConfig(Strict):
    """A release's TOML file: the ledger's name for the data, columns, public bounds, settings.

    ``dataset.study`` is the path of a study file that declares the columns: they are put into its public
    units, a regression gets an intercept, and columns, bounds and settings that are left out here are the
    study's (of ``dataset.form``, where it has several forms). ``public`` are rows for an estimator that takes
    public ones; a study's form that takes some brings the study's.
    """

    dataset: _Dataset
    columns: _Columns
    public: PublicTable | None = None
    bounds: dict[str, Any] = Field(default={})
    params: dict[str, Any] = Field(default={})


Config = TypeVar("Config", bound=Strict)


def read_release(
    config: Path, estimator: str, interval: float | None = None
) -> tuple[ReleaseConfig, StudySpec | None]:
    """Read a release file: its request with its columns and settings, and the study that it names, if any."""
    asked, study = read_config(config, ReleaseConfig), None
    if asked.public:
        asked = asked.model_copy(update={"public": asked.public.resolved_from(config)})
    if asked.dataset.study:
        study = load_study(config.parent / asked.dataset.study)
        if study.analyst_table is None:
            raise SpecError(
                f"dataset.study must be a study file with its own [data], got {asked.dataset.study!r}"
            )
        asked = _completed(asked, study, study.analyst_table, estimator)
    asked = _with_public_rows(asked, study, estimator)
    if not asked.columns.x:
        raise SpecError('columns.x must name at least one column, got none; add e.g. x = ["age"]')
    _check_columns(asked.columns)
    if interval is not None:
        asked = asked.model_copy(update={"params": _with_interval(asked.params, interval)})
    return asked, study


def _completed(asked: ReleaseConfig, study: StudySpec, table: AnalystTable, estimator: str) -> ReleaseConfig:
    """Add the study's columns where none are named, and the settings that it measured the estimator with."""
    declared = tuple(column.name for column in table.columns if column.name != asked.columns.y)
    columns = asked.columns if asked.columns.x else asked.columns.model_copy(update={"x": declared})
    forms = {
        item.form: item
        for item in study.estimators_of(study.head_panel)
        if item.name == estimator and "tight" in item.calibrations
    }
    form = asked.dataset.form or (next(iter(forms)) if len(forms) == 1 else "")
    if form not in forms and (forms or form):
        known = ", ".join(map(repr, forms)) or "none"
        raise SpecError(
            f"dataset.form must be one of {asked.dataset.study} for {estimator} ({known}), got {form!r}"
        )
    settings: dict[str, Any] = {}
    if forms:
        coordinates = sum(len(table.ingested(name)) for name in columns.x) + bool(columns.y)
        sizes = {**study.head_panel.problem.sizes(table.units[0]), "d": coordinates}
        settings = forms[form].keywords(sizes, max(forms[form].steps, default=None))
        settings = {
            key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()
        }
    bounds = {key: value for key, value in settings.items() if is_bound(key) and key not in asked.params}
    params = {key: value for key, value in settings.items() if not is_bound(key) and key not in asked.bounds}
    return asked.model_copy(
        update={
            "columns": columns,
            "bounds": {**bounds, **asked.bounds},
            "params": {**params, **asked.params},
        }
    )


def _with_public_rows(asked: ReleaseConfig, study: StudySpec | None, estimator: str) -> ReleaseConfig:
    """Take a setting that the sample brings public rows for the public table of the study."""
    public, params = asked.public, dict(asked.params)
    if "public_X" in params:
        if params.pop("public_X") != "sample":
            raise SpecError(
                'params.public_X must be "sample" in a file, got something else; write public rows to a CSV '
                "file, and name it under [public] with the reason why they are public"
            )
        public = public or (study.public if study else None)
        if public is None:
            raise SpecError("params.public_X must be left out without a table of public rows; add [public]")
    if public and not takes_public_rows(estimator, {}):
        raise SpecError(
            f"public must be left out for {estimator}, which takes no public rows, got {public.data}"
        )
    return asked.model_copy(update={"public": public, "params": params})


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read and check a TOML file of a user's: that of a release, or of a local protocol."""
    content, plain = read_toml(path)
    refuse_unfinished(path.name, content.decode())
    try:
        return kind(**plain)
    except ValidationError as error:
        faults = [field_fault(".".join(map(str, fault["loc"])), fault) for fault in error.errors()]
        raise SpecError(f"{path.name}: {'; '.join(faults)}; see docs/guide/releases.md") from None


def public_keywords(
    bounds: dict[str, Any], params: dict[str, Any], estimator: str, instead: str
) -> dict[str, Any]:
    """Return bounds and settings as keywords; a bound must be declared where it counts as public."""
    faults = []
    for table, settings in (("bounds", bounds), ("params", params)):
        check_settings(table, settings, instead)
    for name, value in bounds.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            faults.append(
                f"bounds.{name} must be a number that is public, got {value!r}; a bound read from the data "
                "would be a release of its own, so declare one from general knowledge"
            )
        elif isinstance(value, list) and len(value) == 2 and not value[0] <= value[1]:
            faults.append(f"bounds.{name} must be [lower, upper] with lower <= upper, got {value}; swap them")
    faults += [
        f"params.{name} must stand in [bounds], which declares it public; move it there, with a value that "
        "does not come from the data"
        for name in params
        if is_bound(name)
    ]
    needed = [item["name"] for item in describe(get_estimator(estimator).parameters) if item["required"]]
    missing = [name for name in needed if name not in {*bounds, *params, "epsilon", "delta"}]
    if undeclared := [f"bounds.{name}" for name in missing if is_bound(name)]:
        faults.append(
            f"{', '.join(undeclared)} must be declared public for {estimator}, got none; add numbers that do "
            "not come from the data"
        )
    if unset := [f"params.{name}" for name in missing if not is_bound(name)]:
        faults.append(f"{', '.join(unset)} must be set for {estimator}, got none; add them")
    if faults:
        raise SpecError("; and ".join(faults))
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in {**bounds, **params}.items()
    }


def _with_interval(params: dict[str, Any], level: float) -> dict[str, Any]:
    if "interval" in params and params["interval"] != level:
        raise SpecError(f"params.interval must agree with --interval {level:g}, got {params['interval']!r}")
    return {**params, "interval": level}


def is_bound(keyword: str) -> bool:
    """Whether a keyword is a claim about the data, which must be public."""
    return keyword.endswith(("_bound", "_bounds", "_norm", "_radius")) or keyword in (
        "center",
        "lower",
        "upper",
        "radius",
        "samples_per_user",
    )


def _check_columns(columns: _Columns) -> None:
    names = [*columns.x, *filter(None, (columns.y, columns.user_id))]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"columns must name each column once, got {name!r} twice; take one out")
