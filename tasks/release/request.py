"""The request for a release: the columns, public bounds and settings of a TOML file, read and completed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from data.errors import numbered
from dpalgos import InputError
from dpalgos.accounting.events import Relation
from dpalgos.catalog import Estimator
from dpalgos.central.preconditioned.estimator import ALL
from dpalgos.coefficients import HAZARD
from dpalgos.formula.design import FormulaDesign
from dpalgos.hardened_release import releasable
from tasks.errors import SpecError
from tasks.file_schema import Strict, sentences, undeclared_fault, undeclared_keys
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.file_units import FileUnits
from tasks.own_table.formula import expand_formula, expand_group_numbers
from tasks.own_table.row_design import ReleaseColumns, RowDesign, row_design, units_of_file
from tasks.release.faults import (
    NO_COVARIATE,
    check_columns,
    faults_of_declarations,
    faults_of_settings,
    is_bound,
    stated_by_column,
    unknown_columns,
)
from tasks.release.spending import unit_of
from tasks.study.estimators import INTERCEPT, MAX_WEIGHT, OFFSET, check_offset, structure_of
from tasks.study.own_data import OwnData, checked_data, read_toml

if TYPE_CHECKING:
    from dpalgos.formula.group_table import GroupNumbers


class ReleaseDataset(Strict):
    name: str
    study: str = ""
    form: str = ""


class ReleaseQuestion(Strict):
    """A question about the data: columns or a formula, public bounds and settings.

    A release file has one, a plan several. A ``formula``, or the study's, stands for the columns.
    """

    columns: ReleaseColumns = ReleaseColumns()
    formula: str = ""
    survival: str = ""  # survival curves by group, such as "Surv(time, event) ~ arm"
    table1: str = ""  # the baseline table of a paper, such as "arm ~ age + stage"
    bounds: dict[str, Any] = Field(default={})
    params: dict[str, Any] = Field(default={})


class ReleaseConfig(ReleaseQuestion):
    """A release's TOML file: a question, and the ledger's name for the data.

    ``dataset.study`` is the path of a study file that declares the columns. They are put into its public
    units, and a regression gets an intercept. Columns, bounds and settings that are left out here are the
    study's (of ``dataset.form``, where it has several forms).
    """

    dataset: ReleaseDataset


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """A request: an estimator, a budget, and the declarations of release file and study."""

    estimator: Estimator
    epsilon: float
    delta: float
    dataset: str  # the ledger's name of the data
    columns: ReleaseColumns
    formula: str
    bounds: Mapping[str, Any]
    params: Mapping[str, Any]
    own: OwnData | None  # what a study file declares of the table

    @cached_property
    def by_formula(self) -> FormulaDesign | None:
        """The formula of response and covariates, if they are those of one."""
        design = self.table.formula_of(self.columns.x) if self.table else None
        if design is None or design.covariates != self.columns.x:
            return None
        return _with_events(design, self.params)

    @cached_property
    def by_group(self) -> "GroupNumbers | None":
        """The numbers by group, if the columns are those of a table by group."""
        return self.table.group_numbers_of(self.columns.x) if self.table else None

    @cached_property
    def design(self) -> RowDesign:
        """How the estimator's rows are made from the file."""
        return row_design(self.table, self.columns, self.family, self.by_formula)

    @cached_property
    def units(self) -> FileUnits:
        """How the estimate is converted to the units of the file."""
        return units_of_file(self.design, self.table, self.columns, self.by_formula)

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """The estimator's keywords: the budget, what the files state, and what follows from declarations."""
        name, offset_bounds, response = self.estimator.name, self.offset_bounds, self.design.response
        # Limits by group follow from their numbers.
        stated = self.by_group.keywords if self.by_group else {**self.bounds, **self.params}
        keywords: dict[str, Any] = {
            key: tuple(each) if isinstance(each, list) else each for key, each in stated.items()
        }
        keywords |= {"epsilon": self.epsilon, "delta": self.delta}
        if offset_bounds:
            check_offset(name, self.units.names[0])
        if self.design.intercept:
            max_weight = self.table.max_weight if self.table else None
            keywords = {**structure_of(name, offset_bounds, max_weight, self.count_bound), **keywords}
        if "coef" in keywords:
            keywords["coef"] = self.units.answer_of(keywords["coef"], has_offset=offset_bounds is not None)
            if keywords.get("residual_bound") is not None and response:  # of the response's own unit
                keywords["residual_bound"] /= response.scale or 1.0
        return keywords

    @property
    def family(self) -> str:
        """The family of a generalized linear model, or ""."""
        return str(self.params.get("family", ""))

    @property
    def level(self) -> float | None:
        return self.params.get("interval")

    @property
    def table(self) -> AnalystTable | None:
        """The declaration of the columns, if a study file has one."""
        return self.own.data if self.own else None

    @property
    def is_sum(self) -> bool:
        """Whether a declared row may add zeros: to the sums of a regression, or to counts by group."""
        return self.table is not None and bool(self.columns.y or self.by_group)

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the covariates in the model."""
        return tuple(map(self._term, self.columns.x))

    @property
    def response(self) -> str:
        """The name of the response in the model, or ""."""
        return self._term(self.columns.y or "").removeprefix("~ ")

    def _term(self, name: str) -> str:
        return self.table.term(name) if self.table else name

    @property
    def offset_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the first covariate, if it is the offset of a formula."""
        return self.by_formula.offset_bounds if self.by_formula else None

    @property
    def count_bound(self) -> float | None:
        """The declared maximum of a response that is a count."""
        if self.family != "poisson" or self.table is None or (self.by_formula and self.by_formula.survival):
            return None
        if self.by_formula and self.by_formula.response:
            return self.by_formula.response.upper
        return next(column.upper for column in self.table.columns if column.name == self.columns.y)

    @property
    def n_users(self) -> int | None:
        """The declared number of protected users; each row is one if the response is a time to an event."""
        if self.table is None:
            return None
        is_time = self.by_formula is not None and self.by_formula.survival is not None
        return self.table.users or (self.table.rows if is_time else None)

    def with_formula(self, formula: str) -> "ReleaseRequest":
        """Return the request with another spelling of its formula."""
        assert self.own is not None
        table, design = expand_formula(formula, self.own.data)
        columns = self.columns.model_copy(update={"x": design.covariates, "y": design.response_column})
        own = self.own.model_copy(update={"data": table})
        return replace(self, formula=formula, own=own, columns=columns)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns of the file that the estimate is made from."""
        uses = {each.name: each.uses for each in self.table.columns} if self.table else {}
        return tuple(
            dict.fromkeys(name for each in self.columns.all_numbers for name in uses.get(each, (each,)))
        )

    @property
    def relation(self) -> Relation:
        """The neighboring relation in words: where each row is a person, rows differ."""
        is_of_rows = self.estimator.relation is Relation.USER and not self.columns.user_id
        return Relation.CENTRAL if is_of_rows else self.estimator.relation or Relation.CENTRAL

    @property
    def unit(self) -> str:
        """The unit that one budget protects: a row, or a user by a column."""
        return unit_of(self.columns.user_id)


def read_request(
    path: Path, estimator: str, *, epsilon: float, delta: float, interval: float | None = None
) -> ReleaseRequest:
    """Read a release file; add what its study declares; refuse what does not fit the estimator."""
    config, own, faults = _read_file(path, for_any=False)
    if config is None or faults:
        raise SpecError(f"{path.name}: {numbered(faults)}")
    return complete_request(config, own, estimator, path, epsilon=epsilon, delta=delta, interval=interval)


def complete_request(
    config: ReleaseConfig,
    own: OwnData | None,
    estimator: str,
    path: Path,
    *,
    epsilon: float,
    delta: float,
    interval: float | None,
) -> ReleaseRequest:
    """Add what a study declares to the content of a release file; ``path`` is where it was written.

    The settings of the file were checked where it was read.
    """
    columns, bounds, params = config.columns, dict(config.bounds), dict(config.params)
    design = own.data.formula_of(columns.x) if own else None
    numbers = own.data.group_numbers_of(columns.x) if own else None
    survival = design.survival if design else None
    if survival and design:
        params = survival.settings(params)
    if own is not None:
        if stated := [key for key in ("lower", "upper") if estimator == "box_mean" and key in bounds]:
            raise SpecError(stated_by_column(stated[0], config.dataset.study))
        # The plan says that there is a constant, and an offset.
        known = {*bounds, *params, INTERCEPT, MAX_WEIGHT, OFFSET}
        for key, value in _settings_of_study(own, config.dataset, columns, estimator).items():
            if key not in known:
                settings = bounds if is_bound(key) else params
                settings[key] = list(value) if isinstance(value, tuple) else value
    if interval is not None and params.setdefault("interval", interval) != interval:
        raise SpecError(
            f"params.interval must agree with --interval {interval:g}, got {params['interval']!r}"
        )
    if own and (faults := [*faults_of_declarations(own.data, config.dataset.study, columns, bounds, params)]):
        raise SpecError(numbered(faults))
    if "coef" in params:
        params["coef"], family = _released_model(path, params["coef"])
        if family and params.setdefault("family", family) != family:
            raise SpecError(f"params.family must be that of the record, {family!r}, got {params['family']!r}")
    if numbers and estimator != numbers.estimator:
        raise SpecError(f"{numbers.kind} is for {numbers.estimator}, got {estimator}; release that")
    private = releasable(estimator, params).for_unit(people=bool(columns.user_id or survival))
    check_columns(private, columns, by_group=bool(numbers))
    if survival and not private.takes_people:
        raise SpecError(
            f"{survival.name} is for preconditioned_glm, got {estimator}; release that, or another response"
        )
    request = ReleaseRequest(
        estimator=private,
        epsilon=epsilon,
        delta=delta,
        dataset=config.dataset.name,
        columns=columns,
        formula=config.survival or config.table1 or config.formula or (own.formula if own else ""),
        bounds=bounds,
        params=params,
        own=own,
    )
    _ = request.keywords, request.units  # refused here, before any row is read
    return request


def _with_events(design: FormulaDesign, params: Mapping[str, Any]) -> FormulaDesign:
    """Return the design of a time to an event with the events that the settings count."""
    if design.survival is None:
        return design
    all_events = params["counted_events"] == ALL
    return replace(design, survival=replace(design.survival, all_events=all_events))


def with_declared_columns(own: OwnData, config: ReleaseConfig) -> tuple[OwnData, ReleaseConfig]:
    """Return the table and the release file with all columns.

    They are those of the file's formula or table by group, or of the study's formula. Without any, all
    declared columns are covariates or the response. A question without weights has a table without them.
    """
    columns, table, update = config.columns, own.data, dict[str, Any]()
    tables = {key: text for key in ("survival", "table1") if (text := getattr(config, key))}
    formula = config.formula or own.formula
    if tables:
        (kind, text), *others = tables.items()
        settings = [*config.bounds, *(each for each in config.params if each != "interval")]
        if also := [*others, *filter(None, [config.formula]), *columns.xy, *settings]:
            raise SpecError(
                f"{kind} must be alone in a release, without columns and settings, got {also[0]!r}, too"
            )
        table, numbers = expand_group_numbers(kind, text, table)
        update = {"x": numbers.names}
    elif config.formula or (formula and not columns.x):
        table, design = expand_formula(formula, table)
        update = {"x": design.covariates, "y": design.response_column}
        if columns.x or columns.y not in (None, update["y"]):
            raise SpecError("columns must leave x and y to the formula, got both; take one out")
    elif not columns.x:
        update = {"x": tuple(column.name for column in table.columns if column.name != columns.y)}
    columns, guesses = columns.model_copy(update=update), own.guesses
    if not columns.weights and (columns.weights is not None or not columns.y):  # "", a mean or a table
        columns, guesses = columns.model_copy(update={"weights": None}), guesses.without(table.weights)
        table = table.model_copy(update={"weights": "", "max_weight": None})
    own = own.model_copy(update={"data": table, "guesses": guesses})
    return own, config.model_copy(update={"columns": columns})


def checked_request(path: Path) -> tuple[ReleaseConfig | None, OwnData | None, list[str]]:
    """Return a release file, its declared table with the columns of the formula, and all faults of both."""
    return _read_file(path, for_any=True)


def _read_file(path: Path, *, for_any: bool) -> tuple[ReleaseConfig | None, OwnData | None, list[str]]:
    """Return a release file, its declared table, and their faults.

    ``for_any``: those of its settings, too, whatever the estimator is. Otherwise the request has them.
    """
    _, plain = read_toml(path)
    undeclared = dict(undeclared_keys(plain))
    config, own, faults = None, None, undeclared_fault(undeclared)
    try:
        config = ReleaseConfig(**plain)
        faults += faults_of_settings(config.columns, config.bounds, config.params)
    except ValidationError as error:
        faults += sentences(error, undeclared)
    dataset = plain.get("dataset")
    name = dataset.get("study") if isinstance(dataset, dict) else None
    if not isinstance(name, str) or not name or name == "?":
        return config, own, [*faults, *(_faults_without_study(config) if config and not name else ())]
    own, of_study = checked_data(path.parent / name)
    if own is None and not of_study:
        of_study.append(f"dataset.study must be a study file with its own [data], got {name!r}")
    elif own and config and not of_study:
        try:
            own, config = with_declared_columns(own, config)
            of_study += unknown_columns(config.columns, own.data)
            if for_any and not of_study and not undeclared:
                faults += _faults_of_release(config, own, path)
        except SpecError as error:
            faults.append(str(error))
    return config, own, [*faults, *(f"{name}: {fault}" for fault in of_study)]


def _faults_without_study(config: ReleaseConfig) -> Iterator[str]:
    """Yield what a release file lacks that names no study file."""
    formulas = {key: text for key in ("formula", "survival", "table1") if (text := getattr(config, key))}
    for key, text in formulas.items():
        yield f"{key} needs dataset.study, which declares its columns, got {text!r} without; name its file"
    if not formulas and not config.columns.x:
        yield NO_COVARIATE


def _faults_of_release(config: ReleaseConfig, own: OwnData, path: Path) -> list[str]:
    """Return the declarations and settings for which a release is refused, whatever its estimator is."""
    columns, params = config.columns, dict(config.params)
    faults = [*faults_of_declarations(own.data, config.dataset.study, columns, config.bounds, params)]
    design = own.data.formula_of(columns.x)
    try:
        if design and design.survival:
            design.survival.settings(params)
        if not faults:
            families = [params.get("family"), *(each.params.get("family") for each in own.estimators)]
            family = families[0] or ("multinomial" if "multinomial" in families else "")
            rows = row_design(own.data, columns, family, design)
            units = units_of_file(rows, own.data, columns, design)
            if "coef" in params:
                has_offset = bool(design and design.offset_bounds)
                units.answer_of(_released_model(path, params["coef"])[0], has_offset=has_offset)
    except (InputError, SpecError) as error:
        faults.append(str(error))
    return faults


def _settings_of_study(
    own: OwnData, dataset: ReleaseDataset, columns: ReleaseColumns, estimator: str
) -> dict[str, Any]:
    """Return the settings with which a study measures an estimator, in the form that a release names."""
    table, settings = own.data, dict[str, Any]()
    forms = {
        item.form: item for item in own.estimators if item.name == estimator and "tight" in item.calibrations
    }
    form = dataset.form or (next(iter(forms)) if len(forms) == 1 else "")
    if form not in forms and (forms or form):
        known = ", ".join(map(repr, forms)) or "none"
        raise SpecError(
            f"form must be one of {dataset.study} for {estimator} ({known}), got {form!r}; state "
            "it in [dataset], or in the question of a plan"
        )
    if estimator == "box_mean":  # the declared bounds, in public units
        fitted = {column.name: column for column in table.fitted}
        used = [fitted[one] for name in columns.x for one in table.ingested(name) if one in fitted]
        for key, ends in (("lower", [each.lower for each in used]), ("upper", [each.upper for each in used])):
            settings[key] = [
                (end - (each.center or 0.0)) / (each.scale or 1.0)
                for end, each in zip(ends, used, strict=True)
            ]
    if forms:
        coordinates = sum(len(table.ingested(name)) for name in columns.x) + bool(columns.y)
        sizes = {"n": table.units[0], "d": coordinates}
        response = next((each for each in table.columns if each.name == columns.y), None)
        if response and (response.categories or response.upper):
            sizes["K"] = len(response.categories) or int(response.upper or 0) + 1
        settings |= forms[form].keywords(sizes)
    return settings


def _released_model(path: Path, record: object) -> tuple[dict[str, float], str]:
    """Return the coefficients by name that the record of a release answered, and their family."""
    if not isinstance(record, str):
        raise SpecError(
            f"params.coef must be the path of a release's record, got {record!r}; name "
            "the folder that --record wrote"
        )
    from tasks.report.coefficients import read_record  # its tables take long to load

    release = read_record(path.parent / record)["release"]
    family = release.get("model", {}).get("family", "")
    if family == HAZARD:
        raise SpecError(
            f"params.coef must be of a regression of responses, got {record!r}, of times to an event; "
            "name another record"
        )
    return {each["name"]: each["shrunk"] for each in release["answer"]}, family
