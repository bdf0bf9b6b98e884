"""What problems on a registered table share: its columns, their units, and the estimand that they make."""

import json
from abc import ABC
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

import dpalgos
from data.frame_features import Scales, load_frames, scales
from data.prepared_table import PreparedTable, Units
from data.refs import DatasetRef, FramesRef, read_table
from data.registry import Column, Dataset, get_dataset
from data.table_design import prepare_table, read_prepared_table, table_bytes
from tasks.problems.own_data import OwnData
from tasks.problems.problem import Problem


class RegisteredTableProblem(Problem, ABC):
    """Rows of a registered table.

    With a response the task is its regression on the covariates, linear or of a ``family``; without one it
    is the mean of the covariates. Frames of a flock have all their features and the label by default.

    Attributes
    ----------
    dataset : str
    response : str
        Empty for a mean.
    covariates : tuple of str
        Empty for the features of frames.
    family : str
        Of the generalized linear model; empty for a linear one.
    units : {"public", "standardised"}
        By the registry's public centres and scales, or by means and standard deviations of the data, which is
        not private.
    own : OwnData or None
        The study's own table, where it has one; no part of keys, which hold the table's content instead.
    """

    dataset: str
    response: str = ""
    covariates: tuple[str, ...] = ()
    family: str = ""
    units: Units
    own: OwnData | None = Field(default=None, exclude=True)

    @field_validator("covariates")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"each entry must be there once, got {name!r} twice; take one out")
        return names

    @field_validator("family")
    @classmethod
    def _has_one_predictor(cls, family: str) -> str:
        if family:
            from dpalgos.families import get_family

            get_family(family)  # refuses those that need to be told the classes
        return family

    @model_validator(mode="after")
    def _response_apart(self) -> "RegisteredTableProblem":
        if self.response in self.covariates:
            raise ValueError(f"covariates must not hold the response, got {self.response!r}; take it out")
        if self.task == "mean" and self.units != "public":
            raise ValueError(f"units must be 'public' for a mean, got {self.units!r}: others know its answer")
        return self

    @property
    def source(self) -> str:
        """Name of the dataset."""
        return self.dataset

    @property
    def protected(self) -> bool:
        """Whether the columns are put into public units."""
        return self.units == "public"

    @property
    def task(self) -> str:
        """What is estimated."""
        if self.family:
            return "glm"
        return "linear_regression" if self.response else "mean"

    def check(self, n: int, task: str) -> None:
        """Refuse a table without covariates."""
        if not self.covariates and self.about.kind == "table":
            raise ValueError("covariates must have at least one entry")

    def check_data(self, n: int) -> None:
        """Refuse a dataset without columns, an unknown column, and more rows than there are."""
        about = self.about
        if about.kind == "genotypes":
            raise ValueError(f"dataset must hold a table or frames, got {about.name!r}")
        self.columns()
        if n > about.n_rows:
            raise ValueError(
                f"grid.n must be at most the {about.n_rows:,} rows of {about.name}, got {n}; "
                "take the larger ones out"
            )

    def columns(self) -> tuple[Column, ...]:
        """Return the covariates, then the response; of frames the features of one boid."""
        about = self.about
        if about.kind == "frames":
            return about.columns
        return tuple(about.column(name) for name in (*self.covariates, self.response) if name)

    def assumed_columns(self) -> tuple[Column, ...]:
        """Return all columns whose units are public."""
        return tuple(column for column in self.columns() if self.protected or column.scale is not None)

    def sizes(self, n: int) -> dict[str, int]:
        """Return n and d, with the intercept where one is fitted."""
        about = self.about
        if about.kind == "frames":
            return {"n": n, "d": about.n_boids * len(about.columns) + 1}
        return {"n": n, "d": len(self.covariates) + self._has_intercept}

    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Put the columns into their units; of frames only how: they are read anew."""
        about = self.about
        if isinstance(table, FramesRef):
            return ".json", json.dumps(scales(table, about, self.units).to_dict()).encode()
        prepared = prepare_table(
            read_table(table),
            about,
            response=self.response,
            covariates=self.covariates,
            units=self.units,
            raw_response=bool(self.family),
        )
        return ".parquet", table_bytes(prepared)

    def load(self, path: Path) -> PreparedTable:
        """Read the prepared table."""
        if path.suffix == ".json":
            return load_frames(Scales.from_dict(json.loads(path.read_bytes())))
        return read_prepared_table(path)

    @property
    def about(self) -> Dataset:
        """The registry's entry, or what the owner declares."""
        return self.own.dataset(self.dataset) if self.own else get_dataset(self.dataset)

    @property
    def _has_intercept(self) -> bool:
        """Whether a column of ones is fitted: not for a mean, nor where responses are centred by the data."""
        return bool(self.response) and (self.protected or bool(self.family))

    def full_answer(self, prepared: PreparedTable) -> np.ndarray:
        """Return the non-private answer of all the rows, in standard deviations of the columns."""
        if prepared.y is None:
            coef: Any = prepared.X.mean(axis=0)
        elif self.family:
            rng = np.random.default_rng(0)  # asked for, and not used
            coef = dpalgos.estimate("glm", prepared.X, prepared.y, rng=rng, family=self.family).estimate
        else:
            coef = np.linalg.lstsq(prepared.X, prepared.y, rcond=None)[0]
        return np.asarray(prepared.to_standard @ coef)
