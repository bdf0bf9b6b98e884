"""What a study is: the schema of ``flows/studies/*.toml`` and its expansion into blocks of cells."""

import difflib
import hashlib
import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

import dpalgos
from dpalgos.accounting.gaussian import check_budget
from dpalgos.api import build_params
from tasks.cells import Block, Cell

Profile = Literal["smoke", "standard", "paper"]
PROFILES: tuple[Profile, ...] = ("smoke", "standard", "paper")

Number = Annotated[float, Field(strict=True)]  # neither "0.5" nor true
Count = Annotated[int, Field(strict=True, ge=1)]
DeltaRule = Annotated[str, BeforeValidator(lambda value: repr(value) if _is_number(value) else value)]

_NAME = re.compile(r"[a-z][a-z0-9_-]*")  # it becomes a folder's name and part of addresses
_DELTA_RULE = re.compile(r"^(?P<factor>\d+(\.\d+)?)/n(\^(?P<power>\d+(\.\d+)?))?$")


class SpecError(ValueError):
    """A study file is wrong; the message names the file, the key, its value and what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Grid(_Strict):
    """Sizes and budgets; every combination is a cell."""

    n: tuple[Count, ...] = Field(min_length=1)
    epsilon: tuple[Number, ...] = Field(min_length=1)
    delta: tuple[DeltaRule, ...] = Field(min_length=1)

    @field_validator("n", "epsilon", "delta")
    @classmethod
    def _distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return _each_once(values)

    @field_validator("epsilon")
    @classmethod
    def _positive(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        for value in values:
            check_budget(value, 0.5)
        return values

    @field_validator("delta")
    @classmethod
    def _rule(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        for rule in rules:
            delta_at(rule, 10**6)
        return rules

    @model_validator(mode="after")
    def _deltas_below_one(self) -> "Grid":
        for rule in self.delta:
            for n in self.n:
                if not delta_at(rule, n) < 1:
                    raise ValueError(
                        f"delta must be below 1, got {rule!r}, which is {delta_at(rule, n):g} at n = {n}; "
                        "take a smaller one, e.g. '1/n^2'"
                    )
        return self


class EstimatorSpec(_Strict):
    """One estimator of a study with its public keywords."""

    name: str
    form: str = ""
    calibrations: tuple[Literal["tight", "paper"], ...] = ()
    params: dict[str, Any] = {}

    @model_validator(mode="after")
    def _fits_the_catalogue(self) -> "EstimatorSpec":
        estimator = dpalgos.get_estimator(self.name)
        if estimator.private and not self.calibrations:
            raise ValueError(f'{self.name} is private and needs calibrations, e.g. ["tight"]')
        if self.calibrations and not estimator.private:
            raise ValueError(
                f"{self.name} is not private, got calibrations {list(self.calibrations)}; leave them out"
            )
        if not re.fullmatch(r"[\w. -]*", self.form):
            raise ValueError(f"form must be letters, digits, blanks and hyphens, got {self.form!r}")
        for calibration in self.calibrations or ("none",):
            budget = {"epsilon": 1.0, "delta": 0.1, "calibration": calibration} if estimator.private else {}
            build_params(estimator, {**budget, **self.params})
        return self


class Headline(_Strict):
    """The setting that the report's first sentence is about."""

    n: Count
    epsilon: Number
    delta: DeltaRule
    prepare: str


class AssumptionSpec(_Strict):
    """Something taken as public: what, its value, where from."""

    what: str
    value: str
    source: str


class Note(_Strict):
    """A remark for the report."""

    text: str


class StudySpec(_Strict):
    """A study: which data, which estimators, which grid, how often, and words for the report."""

    name: str
    title: str
    question: str
    dataset: str
    task: Literal["linear_regression"]
    response: str
    covariates: tuple[str, ...] = Field(min_length=1)
    prepare: tuple[Literal["public", "paper"], ...] = Field(min_length=1)
    size_label: str
    metric_label: str
    deleted_rows: tuple[Count, ...] = ()
    grid: Grid
    replicates: dict[Profile, Count]
    audit_trials: dict[Profile, Annotated[int, Field(ge=1000)]] = {}
    headline: Headline
    estimators: tuple[EstimatorSpec, ...] = Field(min_length=1)
    assumptions: tuple[AssumptionSpec, ...] = ()
    notes: tuple[Note, ...] = ()
    sha256: str = ""

    @field_validator("name")
    @classmethod
    def _can_name_a_folder(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(
                "a study's name must be lower-case letters, digits, '_' and '-', beginning with a letter, "
                f"got {name!r}; rename the file, or add e.g. name = 'my_study'"
            )
        return name

    @field_validator("covariates", "prepare", "deleted_rows")
    @classmethod
    def _distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return _each_once(values)

    @model_validator(mode="after")
    def _fits_together(self) -> "StudySpec":
        if self.response in self.covariates:
            raise ValueError(f"covariates must not hold the response, got {self.response!r}; take it out")
        for profile in PROFILES:
            if profile not in self.replicates:
                raise ValueError(f"replicates.{profile} is missing; add e.g. {profile} = 3")
        labels = [f"{item.name} {item.form}".strip() for item in self.estimators]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"estimators must differ in name or form, got {label!r} twice")
        for item in self.estimators:
            task = dpalgos.get_estimator(item.name).task
            if task not in ("any", self.task):
                raise ValueError(
                    f"estimators must be for {self.task}, got {item.name!r}, which is for {task}"
                )
        for name, values in (
            ("n", self.grid.n),
            ("epsilon", self.grid.epsilon),
            ("delta", self.grid.delta),
            ("prepare", self.prepare),
        ):
            value = getattr(self.headline, name)
            if value not in values:
                allowed = ", ".join(map(str, values))
                raise ValueError(f"headline.{name} must be one of the study's ({allowed}), got {value!r}")
        return self

    def grid_at(self, profile: Profile) -> Grid:
        """Return the grid of a profile: ``smoke`` keeps both ends, ε = 0.5 (or the first) and the first δ."""
        if profile != "smoke":
            return self.grid
        sizes = tuple(dict.fromkeys((min(self.grid.n), max(self.grid.n))))
        epsilon = 0.5 if 0.5 in self.grid.epsilon else self.grid.epsilon[0]
        return Grid(n=sizes, epsilon=(epsilon,), delta=self.grid.delta[:1])

    def blocks(self, profile: Profile, *, replicates: int, seed: int, data_source: str) -> list[Block]:
        """Return the study's blocks, one per prepare mode and size."""
        grid = self.grid_at(profile)
        return [
            Block(
                study=self.name,
                dataset=self.dataset,
                data_source=data_source,
                prepare=prepare,
                n=n,
                replicates=replicates,
                seed=seed,
                cells=tuple(self._cells(prepare, n, grid)),
            )
            for prepare in self.prepare
            for n in grid.n
        ]

    def headline_cells(self, blocks: list[Block]) -> list[Cell]:
        """Return the private cells at the headline's ε, δ and preparation, at its size or the nearest."""
        head = self.headline
        own = [block for block in blocks if block.prepare == head.prepare]
        nearest = min(own, key=lambda block: abs(block.n - head.n))
        return [
            cell for cell in nearest.cells if cell.epsilon == head.epsilon and cell.delta_rule == head.delta
        ]

    def _cells(self, prepare: str, n: int, grid: Grid) -> list[Cell]:
        cells = []
        for estimator in self.estimators:
            variant = f"{prepare}, {estimator.form}" if estimator.form else prepare
            shared: dict[str, Any] = {"estimator": estimator.name, "variant": variant, "n": n}
            if not estimator.calibrations:
                cells.append(
                    Cell(
                        **shared,
                        calibration="none",
                        epsilon=None,
                        delta=None,
                        delta_rule="",
                        params=estimator.params,
                    )
                )
            cells += [
                Cell(
                    **shared,
                    calibration=calibration,
                    epsilon=epsilon,
                    delta=delta_at(rule, n),
                    delta_rule=rule,
                    params=estimator.params,
                )
                for calibration in estimator.calibrations
                for epsilon in grid.epsilon
                for rule in grid.delta
            ]
        return cells


def delta_at(rule: str, n: int) -> float:
    """Evaluate a rule such as ``"10/n^1.1"``, ``"1/n^2"`` or ``"1e-6"`` at n."""
    if match := _DELTA_RULE.match(rule):
        return float(match["factor"]) / math.pow(n, float(match["power"] or 1))
    try:
        value = float(rule)
    except ValueError:
        raise ValueError(f"delta must be a number or a rule such as '1/n^2', got {rule!r}") from None
    check_budget(1.0, value)
    return value


def load_study(path: Path) -> StudySpec:
    """Read and check a study file; its name is the file's unless it says another.

    Raises
    ------
    SpecError
        In one sentence.
    """
    try:
        content = path.read_bytes()
        plain = tomllib.loads(content.decode())
    except OSError as error:
        raise SpecError(
            f"the study file {path} cannot be read ({error.strerror}); pass the path of a .toml file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SpecError(f"{path.name} is not a TOML file: {reason}; mend it there") from None
    try:
        return StudySpec(**{"name": path.stem, **plain, "sha256": hashlib.sha256(content).hexdigest()})
    except ValidationError as error:
        raise SpecError(f"{path.name}: {_sentence(error.errors()[0], plain)}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"each entry must be there once, got {value!r} twice; take one out")
    return values


def _sentence(error: ErrorDetails, plain: dict[str, Any]) -> str:
    """Say what is wrong with one key of a study file."""
    place, got = error["loc"], error["input"]
    where = ".".join(str(part) for part in place)
    if len(place) > 1 and place[0] == "estimators":
        name = plain["estimators"][place[1]].get("name", "")
        where = ".".join([f"estimators ({name or place[1]})", *map(str, place[2:])])
    if place and place[-1] == "[key]":
        where, got = str(place[0]), place[-2]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        reason = error["msg"].removeprefix("Value error, ")
        return f"{where}: {reason}" if where else reason
    if kind == "missing":
        return f"{where} is missing; add it"
    if kind == "extra_forbidden":
        return f"{where} is not a known key{_nearest_key(place)}"
    allowed = {
        "literal_error": f"must be {context.get('expected')}",
        "greater_than_equal": f"must be at least {context.get('ge')}",
        "too_short": "must have at least one entry",
        "float_type": "must be a number",
        "int_type": "must be a whole number",
        "string_type": "must be a text",
        "tuple_type": "must be a list",
        "dict_type": "must be a table of keys",
        "model_type": "must be a table of keys",
    }.get(kind) or error["msg"].replace("Input should", "must", 1)
    shown = f", got {got!r}" if isinstance(got, str | int | float | list) else ""
    return f"{where} {allowed}{shown}"


def _nearest_key(place: tuple[int | str, ...]) -> str:
    models: dict[str, type[BaseModel]] = {
        "grid": Grid,
        "headline": Headline,
        "estimators": EstimatorSpec,
        "assumptions": AssumptionSpec,
        "notes": Note,
    }
    known = [*(models[str(place[0])] if len(place) > 1 else StudySpec).model_fields]
    nearest = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; choose one of: {', '.join(known)}"
