"""Base class of problems on a registered table: columns, their units, and the estimand."""

import json
from abc import ABC
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, InstanceOf, PlainSerializer, field_validator, model_validator

import dpalgos
from data.dataset import Column, Dataset
from data.datasets import get_dataset
from data.prepare.frame_features import Scales, load_frames, scales
from data.prepare.table_design import (
    PreparedTable,
    Units,
    prepare_table,
    public_units,
    read_prepared_table,
    table_bytes,
)
from data.store.references import DatasetRef, FramesRef, read_table
from tasks.problems.analyst_table import AnalystTable
from tasks.problems.declared_rows import DeclaredRows, Guesses
from tasks.problems.problem import DatasetProblem
from tasks.problems.public_rows import PublicRows
from tasks.problems.separation import ReferenceAnswer, reference_answer
from tasks.strict import DISTINCT


class RegisteredTableProblem(DatasetProblem, ABC):
    """Rows of a registered table.

    With a response the task is its regression on the covariates, linear or of a ``family``; without one it
    is the mean of the covariates. Frames of a flock have all their features and the label by default.
    """

    response: str = ""
    covariates: Annotated[tuple[str, ...], DISTINCT] = ()
    family: str = ""
    units: Units  # the public ones, or means and standard deviations, which are not private
    analyst_table: AnalystTable | None = Field(default=None, exclude=True)  # keys hold its content
    public: Annotated[InstanceOf[PublicRows], PlainSerializer(lambda rows: rows.sha256)] | None = None

    @field_validator("family")
    @classmethod
    def _is_known(cls, family: str) -> str:
        if family:
            from dpalgos.models.families import family_class

            family_class(family)
        return family

    @model_validator(mode="after")
    def _response_apart(self) -> "RegisteredTableProblem":
        if self.response in self.covariates:
            raise ValueError(f"covariates must not hold the response, got {self.response!r}; take it out")
        if self.task == "mean" and self.units != "public":
            raise ValueError(f"units must be 'public' for a mean, got {self.units!r}: others know its answer")
        if self.public is not None:
            if self.units != "public":
                raise ValueError(f"units must be 'public' where there are public rows, got {self.units!r}")
            if self.user_id:
                raise ValueError("public rows are for tables of which rows are protected; leave [public] out")
            self.public.require(self.covariates)
        return self

    @property
    def protected(self) -> bool:
        return self.units == "public"

    @property
    def task(self) -> str:
        if self.family:
            return "glm"
        return "linear_regression" if self.response else "mean"

    def check(self, n: int, task: str) -> None:
        if not self.covariates and self.about.kind == "table":
            raise ValueError("covariates must have at least one entry")
        if self.family and self.user_id:
            raise ValueError(f"family must be left out where whole users are protected, got {self.family!r}")

    def check_estimator(self, name: str) -> None:
        """Refuse a private estimator that protects another unit than the owner of the table declares."""
        estimator = dpalgos.get_estimator(name)
        if (
            self.analyst_table
            and estimator.private
            and (estimator.unit_of_privacy == "user") != bool(self.user_id)
        ):
            declared = f"a user by {self.user_id!r}" if self.user_id else "a row"
            remedy = "take one of user_level_*" if self.user_id else "declare user_id in [data]"
            raise ValueError(
                f"estimators must protect {declared}, as [data] declares, got {name!r}, which protects a "
                f"{estimator.unit_of_privacy}; {remedy}, or another estimator"
            )

    def check_data(self, n: int) -> None:
        """Refuse a dataset without columns, an unknown column, and more rows (or users) than there are."""
        about = self.about
        if about.kind == "genotypes":
            raise ValueError(f"dataset must hold a table or frames, got {about.name!r}")
        self.columns()
        most, units = self.analyst_table.units if self.analyst_table else (about.n_rows, "rows")
        if n > most:
            raise ValueError(f"grid.n must be at most the {most:,} {units} of {about.name}, got {n}")

    def columns(self) -> tuple[Column, ...]:
        """Return the covariates, then the response; of frames the features of one boid."""
        about = self.about
        if about.kind == "frames":
            return about.columns
        return tuple(about.column(name) for name in (*self.covariates, self.response) if name)

    def sizes(self, n: int) -> dict[str, int]:
        """Return n and d, with the intercept where one is fitted."""
        about = self.about
        if about.kind == "frames":
            return {"n": n, "d": about.n_boids * len(about.columns) + 1}
        classes = {} if self.n_classes is None else {"K": self.n_classes}
        return {"n": n, "d": len(self.covariates) + self._has_intercept, **classes}

    @property
    def n_classes(self) -> int | None:
        """How many classes the response has, 0 to its public upper bound; None for other families."""
        if not self.family:
            return None
        from dpalgos.models.families import family_class

        if not family_class(self.family).needs_classes:
            return None
        return int(self.about.column(self.response).upper) + 1

    @property
    def user_id(self) -> str:
        """The column of user ids; empty where rows are protected."""
        return self.analyst_table.user_id if self.analyst_table else ""

    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Put the columns into their units; for frames return only the units, since they are read again."""
        about = self.about
        if isinstance(table, FramesRef):
            return ".json", json.dumps(scales(table, about, self.units).to_dict()).encode()
        return ".parquet", table_bytes(self._prepared(read_table(table)))

    def _prepared(self, rows: pd.DataFrame) -> PreparedTable:
        prepared = prepare_table(
            rows,
            self.about,
            response=self.response,
            covariates=self.covariates,
            units=self.units,
            raw_response=bool(self.family),
        )
        return _by_user(prepared, rows[self.user_id].to_numpy()) if self.user_id else prepared

    def made_up(self, n_units: int, guesses: Guesses, rng: np.random.Generator) -> PreparedTable:
        """Return a simulated table with the same columns, from their declarations."""
        rows = self.declared_rows(guesses)
        if not self.analyst_table or self.analyst_table.users is None:
            return self._prepared(rows.made_up(n_units, None, rng))
        n_rows = max(n_units, round(n_units * self.analyst_table.rows / self.analyst_table.users))
        users = np.r_[np.arange(n_units), rng.integers(0, n_units, n_rows - n_units)]
        return self._prepared(rows.made_up(n_rows, users, rng).assign(**{self.user_id: users}))

    def declared_rows(self, guesses: Guesses) -> DeclaredRows:
        """Return the declarations of the table's columns, from which rows are simulated."""
        if self.about.kind != "table":
            raise ValueError(f"dataset must hold a table for advice, got {self.dataset!r}")
        declared = self.analyst_table.columns if self.analyst_table else ()
        categories = {
            column.name: column.declared.table_columns
            for column in declared
            if column.categories and set(column.declared.table_columns) & set(self.covariates)
        }
        indicators = [name for group in categories.values() for name in group]
        guesses.check_names({*self.covariates, *categories, *([self.response] if self.response else [])})
        return DeclaredRows(
            numbers=tuple(self.about.column(name) for name in self.covariates if name not in indicators),
            categories=categories,
            response=self.about.column(self.response) if self.response else None,
            family=self.family,
            guesses=guesses,
        )

    @property
    def public_X(self) -> np.ndarray | None:
        """The public rows, if there are any, in the columns of the prepared table."""
        if self.public is None:
            return None
        units = zip(*public_units(self.about, [self.about.column(x) for x in self.covariates]), strict=True)
        return self.public.design(
            dict(zip(self.covariates, units, strict=True)), intercept=self._has_intercept
        )

    @property
    def public_y(self) -> np.ndarray | None:
        if self.public is None or self.response not in self.public.columns:
            return None
        y = self.public.columns[self.response]
        centers, scales = public_units(self.about, [self.about.column(self.response)])
        return y if self.family else (y - centers) / scales

    def load(self, path: Path) -> PreparedTable:
        if path.suffix == ".json":
            return load_frames(Scales.from_dict(json.loads(path.read_bytes())))
        return read_prepared_table(path)

    @property
    def about(self) -> Dataset:
        return self.analyst_table.dataset(self.dataset) if self.analyst_table else get_dataset(self.dataset)

    @property
    def _has_intercept(self) -> bool:
        """Whether a column of ones is fitted: not for a mean, nor for responses centered by the data."""
        return bool(self.response) and (self.protected or bool(self.family))

    def full_answer(self, prepared: PreparedTable) -> ReferenceAnswer:
        """Return the non-private answer of all the rows. Where rows are users', each user counts once."""
        X, y = prepared.X, prepared.y
        if self.family:
            assert y is not None
            return reference_answer(X, y, self.family, self.n_classes)
        if prepared.groups is None:
            coef = X.mean(axis=0) if y is None else np.linalg.lstsq(X, y, rcond=None)[0]
        else:
            coef = weighted_answer(X, y, 1 / np.bincount(prepared.groups)[prepared.groups])
        return ReferenceAnswer(
            coef=coef, columns=np.ones(X.shape[1], dtype=bool), classes=np.ones(1, dtype=bool)
        )


def weighted_answer(X: np.ndarray, y: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    """Return the mean of the rows, or their least-squares regression, each row counting by its weight."""
    if y is None:
        return np.asarray(np.average(X, axis=0, weights=weights))
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0])


def _by_user(prepared: PreparedTable, users: np.ndarray) -> PreparedTable:
    order = np.argsort(users, kind="stable")
    y = None if prepared.y is None else prepared.y[order]
    return replace(prepared, X=prepared.X[order], y=y, groups=users[order])
