"""Base class of sources from a registered table: columns, their units, the estimand and its estimate."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, field_validator, model_validator

import dpalgos
from data.columns import Column
from data.dataset import Dataset
from data.datasets import get_dataset
from data.prepare.table_design import PreparedTable, Units, design_bytes, prepare_table
from data.store.references import DatasetRef, read_table
from dpalgos.formula.design import FormulaDesign
from dpalgos.models.families import family_class, get_family
from dpalgos.tuning.descent import SyntheticTable
from tasks.file_schema import DISTINCT
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.file_units import FileUnits, file_units
from tasks.own_table.row_simulator import Guesses
from tasks.own_table.simulated_rows import simulated_table, simulator_of
from tasks.problems.problem import SYNTHETIC_ROWS, Cost, DatasetSource, Traits
from tasks.problems.reference_answer import ReferenceAnswer, reference_answer

if TYPE_CHECKING:
    import pandas as pd

    from tasks.own_table.row_simulator import RowSimulator


class RegisteredTable(DatasetSource, ABC):
    """Rows of a registered table.

    With a response the task is its regression on the covariates, linear or of a ``family``; without one it
    is the mean of the covariates.
    """

    batch: ClassVar[int] = 0  # replicates that run together at most; 0: as many as last seconds

    response: str = ""
    covariates: Annotated[tuple[str, ...], DISTINCT] = ()
    family: str = ""
    units: Units  # the public ones, or means and standard deviations, which are not private
    analyst_table: AnalystTable | None = Field(default=None, exclude=True)  # keys hold its content

    @field_validator("family")
    @classmethod
    def _is_known(cls, family: str) -> str:
        if family:
            family_class(family)
        return family

    @model_validator(mode="after")
    def _response_apart(self) -> "RegisteredTable":
        if self.response in self.covariates:
            raise ValueError(f"covariates must not contain the response, got {self.response!r}; take it out")
        if self.task == "mean" and self.units != "public":
            raise ValueError(
                f"units must be 'public' for a mean, got {self.units!r}; other units use the rows"
            )
        return self

    @property
    def traits(self) -> Traits:
        return Traits(
            task=self.task,
            family=self.family,
            protected=self.units == "public",
            of_people=bool(self.user_id),
            max_weight=self.analyst_table.max_weight if self.analyst_table else None,
            has_intercept=self.has_intercept,
            offset=self.covariates[0] if self.offset_bounds else "",
            offset_bounds=self.offset_bounds,
            count_bound=self.about.column(self.response).upper if self.family == "poisson" else None,
        )

    @property
    def task(self) -> str:
        if self.family:
            return "glm"
        return "linear_regression" if self.response else "mean"

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        if not self.covariates and self.about.kind == "table":
            raise ValueError("covariates must have at least one entry")
        if self.weights and (not self.response or self.units != "public"):
            raise ValueError(
                f"weights must be left out for means and for units = {self.units!r}, got {self.weights!r}; "
                "they are for regressions in public units"
            )
        for name in estimators if self.analyst_table else ():
            estimator = dpalgos.get_estimator(name).for_unit(people=bool(self.user_id))
            if estimator.private and (estimator.unit_of_privacy == "user") != bool(self.user_id):
                declared, remedy = "a row", "declare user_id in [data]"
                if self.user_id:
                    declared, remedy = "a user", "take one of preconditioned_* or user_level_*"
                raise ValueError(
                    f"estimators must protect {declared}, as [data] declares, got {name!r}, which protects a "
                    f"{estimator.unit_of_privacy}; {remedy}, or another estimator"
                )
            if self.weights and estimator.private and not estimator.takes("max_weight"):
                raise ValueError(
                    f"estimators must take the weights of [data], got {name!r}; take preconditioned_*"
                )

    @property
    def formula(self) -> FormulaDesign | None:
        return self.analyst_table.formula_of(self.covariates) if self.analyst_table else None

    @property
    def offset_bounds(self) -> tuple[float, float] | None:
        formula = self.formula
        return formula.offset_bounds if formula and formula.covariates[:1] == self.covariates[:1] else None

    @property
    def units_of_file(self) -> FileUnits | None:
        """Convert estimates to the terms of the formula, in the units of the file; None without a formula."""
        formula = self.formula
        if formula is None or formula.covariates != self.covariates or self.units != "public":
            return None
        *columns, response = self.columns()
        response = Column.in_units(self.response) if self.family else response
        return file_units(columns, response).by_formula(formula)

    @property
    def slopes(self) -> slice:
        """The covariates that have a coefficient to find: all except an offset."""
        return slice(self.offset_bounds is not None, None)

    def check_data(self, n: int) -> None:
        super().check_data(n)
        self.columns()
        most, units = self.n_units
        if n > most:
            raise ValueError(f"grid.n must be at most the {most:,} {units} of {self.about.name}, got {n}")

    @property
    def n_units(self) -> tuple[int, str]:
        return self.analyst_table.units if self.analyst_table else (self.about.n_rows, "rows")

    def columns(self) -> tuple[Column, ...]:
        about = self.about
        return tuple(about.column(name) for name in (*self.covariates, self.response) if name)

    def sizes(self, n: int) -> dict[str, int]:
        classes = {} if self.n_classes is None else {"K": self.n_classes}
        return {"n": n, "d": len(self.covariates) + self.has_intercept, **classes}

    def cost(self, n: int) -> Cost:
        return Cost(elements=n * self.sizes(n)["d"], batch=self.batch)

    @property
    def n_classes(self) -> int | None:
        """How many classes the response has, 0 to its public upper bound; None for other families."""
        if not self.family or not family_class(self.family).needs_classes:
            return None
        return int(self.about.column(self.response).upper) + 1

    @property
    def weights(self) -> str:
        """The column of weights; empty where rows weigh the same."""
        return self.analyst_table.weights if self.analyst_table else ""

    @property
    def user_id(self) -> str:
        """The column of user ids; empty where rows are protected."""
        return self.analyst_table.user_id if self.analyst_table else ""

    def prepare(self, table: DatasetRef) -> bytes:
        return design_bytes(self.in_units(read_table(table)))

    def in_units(self, rows: "pd.DataFrame") -> PreparedTable:
        prepared = prepare_table(
            rows,
            self.about,
            response=self.response,
            covariates=self.covariates,
            units=self.units,
            raw_response=bool(self.family),
        )
        if self.offset_bounds and prepared.to_standard is not None:
            prepared = replace(prepared, to_standard=prepared.to_standard[self.slopes])
        if self.weights:
            prepared = replace(prepared, weights=rows[self.weights].to_numpy(dtype=np.float64))
        if not self.user_id:
            return prepared
        users = rows[self.user_id].to_numpy()
        return replace(prepared, groups=users).taken(np.argsort(users, kind="stable"))

    def synthetic_rows(
        self, n_units: int, simulator: "RowSimulator", rng: np.random.Generator
    ) -> tuple[PreparedTable, Mapping[str, float]]:
        """Return a synthetic table with the same columns, and the random quantities of its distribution."""
        import pandas as pd  # here: files are checked without it

        simulated = simulated_table(simulator, n_units, self.analyst_table, rng)
        return self.in_units(pd.DataFrame(simulated.table, copy=False)), simulated.drawn

    def synthetic_table(self, guesses: Guesses, n: int, rng: np.random.Generator) -> SyntheticTable:
        table, _ = self.synthetic_rows(SYNTHETIC_ROWS, self.simulator(guesses), rng)
        if not guesses.effects:
            table = self._with_effects_by_unit(table, rng)
        to_target = table.to_standard
        assert to_target is not None
        assert table.y is not None
        return SyntheticTable(table.X, table.y, to_target, to_target @ self.full_answer(table).coef)

    def _with_effects_by_unit(self, table: PreparedTable, rng: np.random.Generator) -> PreparedTable:
        """Return a synthetic table whose columns have effects in proportion to their spread in public units.

        The simulator draws effects per standard deviation. An indicator of a rare category would then have a
        large coefficient, in a direction of little curvature, which takes a descent many steps.
        """
        coef, spread = np.ravel(self.full_answer(table).coef), table.X.std(axis=0)
        factors = np.where(spread > 0, np.minimum(spread, 1.0), 1.0)  # the intercept keeps its own
        before, after = table.X @ coef, table.X @ (factors * coef)
        after += before.mean() - after.mean()
        if not self.family:
            return replace(table, y=table.y + after - before)
        mean = get_family(self.family).mean(after)
        drawn = rng.random(len(mean)) < mean if family_class(self.family).has_events else rng.poisson(mean)
        return replace(table, y=drawn.astype(float))

    def simulator(self, guesses: Guesses) -> "RowSimulator":
        """Return the simulator of the table's rows, from the declarations of its columns."""
        if self.about.kind != "table":
            raise ValueError(f"dataset must hold a table for advice, got {self.dataset!r}")
        return simulator_of(
            self.covariates,
            self.response,
            self.about.column,
            self.analyst_table,
            guesses=guesses,
            formula=self.formula,
            family=self.family,
            offset=self.traits.offset,
        )

    @property
    def about(self) -> Dataset:
        return self.analyst_table.dataset(self.dataset) if self.analyst_table else get_dataset(self.dataset)

    @property
    def has_intercept(self) -> bool:
        """Whether a column of ones is fitted: not for a mean, nor for responses centered by the data."""
        return bool(self.response) and (self.units == "public" or bool(self.family))

    def full_answer(self, prepared: PreparedTable) -> ReferenceAnswer:
        """Return the non-private estimate from all the rows. Where rows are users', each user counts once."""
        X, y, weights = prepared.X, prepared.y, prepared.weights_of_rows
        if self.family:
            assert y is not None
            return reference_answer(X, y, self.family, self.n_classes, self.offset_bounds, weights)
        if weights is None:
            weights = np.ones(len(X))
        if y is None:
            coef = np.average(X, axis=0, weights=weights)
        else:
            root = np.sqrt(weights)
            coef = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
        return ReferenceAnswer(coef=coef, columns=np.full(X.shape[1], True), classes=np.full(1, True))
