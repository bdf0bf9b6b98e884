"""What a study is: the schema of ``flows/studies/*.toml`` and its expansion into blocks of cells."""

import hashlib
import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

import dpalgos
from dpalgos.accounting.gaussian import check_budget
from dpalgos.api import build_params
from tasks.cells import Block, Cell

Profile = Literal["smoke", "standard", "paper"]
PROFILES: tuple[Profile, ...] = ("smoke", "standard", "paper")

_DELTA_RULE = re.compile(r"^(?P<factor>\d+(\.\d+)?)/n(\^(?P<power>\d+(\.\d+)?))?$")


class SpecError(ValueError):
    """A study file is wrong; the message names the file, the key, its value and what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Grid(_Strict):
    """Sizes and budgets; every combination is a cell."""

    n: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    epsilon: tuple[float, ...] = Field(min_length=1)
    delta: tuple[str, ...] = Field(min_length=1)

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
                        f"delta {rule!r} is {delta_at(rule, n):g} at n = {n}; it must be below 1"
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
            raise ValueError(f'{self.name} needs calibrations, e.g. ["tight"]')
        for calibration in self.calibrations or ("none",):
            budget = {"epsilon": 1.0, "delta": 0.1, "calibration": calibration} if estimator.private else {}
            build_params(estimator, {**budget, **self.params})
        return self


class Headline(_Strict):
    """The setting that the report's first sentence is about."""

    n: int
    epsilon: float
    delta: str
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
    deleted_rows: tuple[int, ...] = ()
    grid: Grid
    replicates: dict[Profile, Annotated[int, Field(ge=1)]]
    headline: Headline
    estimators: tuple[EstimatorSpec, ...] = Field(min_length=1)
    assumptions: tuple[AssumptionSpec, ...] = ()
    notes: tuple[Note, ...] = ()
    sha256: str = ""

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
    """Read and check a study file; its name is the file's.

    Raises
    ------
    SpecError
        In one sentence.
    """
    try:
        content = path.read_bytes()
        plain = tomllib.loads(content.decode())
    except OSError as error:
        raise SpecError(f"cannot read the study file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not a TOML file: {error}") from None
    try:
        return StudySpec(**{"name": path.stem, **plain, "sha256": hashlib.sha256(content).hexdigest()})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        reason = first["msg"].removeprefix("Value error, ")
        raise SpecError(f"{path.name}: {where}: {reason[:1].lower()}{reason[1:]}") from None
