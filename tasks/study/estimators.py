"""The estimators of a study with their public keywords, and its grid of sizes and budgets."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

import dpalgos
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.api import build_params
from dpalgos.params import check_settings, describe_keywords
from dpalgos.tuning.descent import BY_FORECAST
from tasks.cells import Cell
from tasks.file_schema import DISTINCT, Number, Strict
from tasks.size_rules import delta_at, evaluate_all

INTERCEPT = "intercept"  # the keyword which says that the last column is the constant
OFFSET = "offset_bounds"  # the keyword which says that the first column is an offset, within these bounds
MAX_WEIGHT = "max_weight"  # the keyword for the public maximum of weights
COUNT_BOUND = "count_bound"  # the keyword for the public maximum of counts
_ANY_BOUND = 1.0  # in place of a bound that a forecast chooses, where keywords are checked
# Sizes at which an estimator's rules are tried before those of its panel are known.
_ANY_SIZES = {"n": 1000, "d": 1000, "s": 10, "K": 3, "T": 10}


def _checked_epsilon(epsilon: float) -> float:
    check_budget(epsilon, 0.5)
    return epsilon


def _delta_rule(value: Any) -> Any:
    rule = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if isinstance(rule, str):
        delta_at(rule, 10**6)
    return rule


# (keywords, budgets) → the settings for each budget that a forecast chooses.
Forecast = Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
Count = Annotated[int, Field(strict=True, ge=1, le=10**12)]
Epsilon = Annotated[Number, AfterValidator(_checked_epsilon)]
Counts = Annotated[tuple[Count, ...], DISTINCT]
DeltaRule = Annotated[str, BeforeValidator(_delta_rule)]


class Grid(Strict):
    """Sizes and budgets, and steps or sparsities where a study varies them; every combination is a cell."""

    n: Counts = Field(min_length=1)
    epsilon: Annotated[tuple[Epsilon, ...], DISTINCT] = Field(min_length=1)
    delta: Annotated[tuple[DeltaRule, ...], DISTINCT] = Field(min_length=1)
    s: Counts = ()
    # Of estimators whose rules name T, a run for each; of other descents, iterates of one run.
    steps: Counts = ()

    @model_validator(mode="after")
    def _deltas_fit(self) -> "Grid":
        if self.steps and len(self.n) > 1:
            raise ValueError(f"n must be one size if steps vary, got {list(self.n)}; make a panel of each")
        for rule in self.delta:
            for n in self.n:
                if not 0 < delta_at(rule, n) < 1:
                    raise ValueError(
                        f"delta must be above 0 and below 1, got {rule!r}, which is {delta_at(rule, n):g} "
                        f"at n = {n}; take e.g. '1/n^2'"
                    )
        return self


class EstimatorSpec(Strict):
    """One estimator of a study with its public keywords, which may be rules in n, d, s and K."""

    name: str
    form: Annotated[str, Field(pattern=r"^[\w. -]*$")] = ""
    calibrations: Annotated[tuple[Literal["tight", "paper"], ...], DISTINCT] = ()
    about: str = ""
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_the_catalog(self) -> "EstimatorSpec":
        estimator = dpalgos.get_estimator(self.name)
        if estimator.private and not self.calibrations:
            raise ValueError(f'{self.name} is private and needs calibrations, e.g. ["tight"]')
        if self.calibrations and not estimator.private:
            raise ValueError(f"{self.name} is not private, got calibrations {list(self.calibrations)}")
        check_settings("params", self.params, "set these in the study's grid and calibrations")
        self.check_keywords(_ANY_SIZES)
        return self

    def check_keywords(self, sizes: dict[str, int]) -> None:
        """Refuse keywords that the estimator does not take, or rules that have no value at these sizes."""
        estimator, keywords = dpalgos.get_estimator(self.name), self.keywords(sizes)
        for calibration in self.calibrations or ("none",):
            budget = {"epsilon": 1.0, "delta": 0.1, "calibration": calibration}
            build_params(estimator, {**(budget if estimator.private else {}), **keywords})

    @property
    def smallest_noise(self) -> Literal["tight", "paper"]:
        """The calibration with the smallest noise that proves its ε."""
        return "tight" if "tight" in self.calibrations else self.calibrations[0]

    @property
    def takes_steps(self) -> bool:
        return any(re.search(r"\bT\b", rule) for rule in self.params.values() if isinstance(rule, str))

    @property
    def by_forecast(self) -> bool:
        """Return whether a forecast chooses number and size of its steps."""
        return BY_FORECAST in self.params.values()

    def takes_path(self, grid: Grid) -> bool:
        """Return whether its steps are iterates of one run."""
        one_run = bool(grid.steps) and not self.takes_steps and not self.by_forecast
        return one_run and dpalgos.get_estimator(self.name).has_path

    def check_path(self, sizes: dict[str, int], grid: Grid) -> None:
        """Refuse steps beyond the last iterate of the run that they are read from."""
        if not self.takes_path(grid):
            return
        budget = {"epsilon": 1.0, "delta": 0.1, "calibration": self.calibrations[0]}
        settings = build_params(dpalgos.get_estimator(self.name), {**budget, **self.keywords(sizes)})
        if (last := getattr(settings, "n_iterations", 0)) < max(grid.steps):
            raise ValueError(
                f"grid.steps must be at most n_iterations, {last}, got {max(grid.steps)}; raise the "
                "latter, or write n_iterations = 'T' for a run of each"
            )

    def sizes(self, sizes: Mapping[str, int], s: int | None, grid: Grid) -> Iterator[dict[str, int]]:
        """Yield its sizes at one n and s: at each number of steps that it takes."""
        at_s = {**sizes, "s": s} if s else {**sizes}
        for steps in (grid.steps if self.takes_steps else ()) or (None,):
            yield {**at_s, "T": steps} if steps else at_s

    def keywords(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return its keywords at some sizes, without those that a forecast chooses; bounds are any."""
        keywords = evaluate_all(self.params, sizes)
        parameters = dpalgos.get_estimator(self.name).parameters
        needed = {each["name"] for each in describe_keywords(parameters) if each["required"]}
        for name in parameters.by_forecast:
            if keywords.get(name) == BY_FORECAST:
                del keywords[name]
                keywords |= {name: _ANY_BOUND} if name in needed else {}
        return keywords

    def cells(
        self,
        panel: str,
        sizes: Mapping[str, int],
        s: int | None,
        grid: Grid,
        forecast: Forecast,
        more: Sequence[tuple[float, str]] = (),
    ) -> Iterator[Cell]:
        """Yield its cells at one size of a panel: one without privacy, or one for each ε and δ.

        ``more`` has pairs of an ε and a rule for δ. They have so little noise that one calibration is enough.
        ``forecast`` returns the settings for each of some budgets.
        """
        same: dict[str, Any] = {"estimator": self.name, "panel": panel, "form": self.form}
        same |= {"n": sizes["n"], "s": s, "params": self.keywords(sizes), "of_path": self.takes_path(grid)}
        steps = grid.steps if self.takes_path(grid) else (sizes.get("T"),)
        if not self.calibrations:
            yield Cell(**same, steps=steps[0], calibration="none", epsilon=None, delta=None, delta_rule="")
        pairs = list(product(grid.epsilon, grid.delta))
        grid_points = [(calibration, *pair) for calibration in self.calibrations for pair in pairs]
        grid_points += [
            (self.smallest_noise, *pair) for pair in more if self.calibrations and pair not in pairs
        ]
        budgets: list[dict[str, Any]] = [
            {"epsilon": epsilon, "delta": delta_at(rule, sizes["n"]), "calibration": calibration}
            for calibration, epsilon, rule in grid_points
        ]
        rules = [rule for _, _, rule in grid_points]
        chosen = forecast(same["params"], budgets) if self.by_forecast and budgets else [{}] * len(budgets)
        for budget, rule, settings in zip(budgets, rules, chosen, strict=True):
            params = {**same["params"], **settings}
            for T in steps:
                yield Cell(**{**same, "params": params}, **budget, delta_rule=rule, steps=T)


def structure_of(
    estimator: str,
    offset_bounds: tuple[float, float] | None,
    max_weight: float | None,
    count_bound: float | None,
) -> dict[str, Any]:
    """Return the keywords by which an estimator knows of the constant, an offset, weights and counts."""
    bounds = offset_bounds and list(offset_bounds)  # as JSON has it
    structure = {INTERCEPT: True, OFFSET: bounds, MAX_WEIGHT: max_weight, COUNT_BOUND: count_bound}
    takes = dpalgos.get_estimator(estimator).takes
    return {name: value for name, value in structure.items() if value is not None and takes(name)}


def check_offset(estimator: str, offset: str) -> None:
    entry = dpalgos.get_estimator(estimator)
    if entry.task != "any" and not entry.takes(OFFSET):
        raise dpalgos.InputError(
            f"{estimator} takes no offset, got {offset}; take preconditioned_glm, or in a linear regression "
            "the response less the offset"
        )
