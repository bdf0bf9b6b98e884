"""A registered table in public units, or standardized by the full data; and random draws of its rows.

Public units are the registry's constants, and the guarantee of a fit covers this preparation. The papers use
z-scores from the full data, which are not private; no guarantee covers that step. Errors are always measured
in standard deviations of all rows. Fits in different units are then comparable.

The file of a prepared dataset has its arrays, and the rest of its fields as JSON.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic_core import to_jsonable_python

from data.columns import Column, rows_in_units
from data.dataset import Dataset
from data.errors import DataError, require_size

if TYPE_CHECKING:
    import pandas as pd

Units = Literal["public", "standardized"]
INTERCEPT = "intercept"

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T")


def design_bytes(design: Any) -> bytes:
    """Serialize a dataclass of arrays, numbers and texts."""
    values = {field.name: getattr(design, field.name) for field in fields(design)}
    arrays: dict[str, Any] = {name: each for name, each in values.items() if isinstance(each, np.ndarray)}
    metadata = {name: to_jsonable_python(value) for name, value in values.items() if name not in arrays}
    buffer = io.BytesIO()
    np.savez(buffer, facts=np.array(json.dumps(metadata)), **arrays)
    return buffer.getvalue()


def read_design(path: Path, kind: type[T]) -> T:
    """Return the dataclass that `design_bytes` serialized; its sequences are tuples."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "facts"}
        metadata = json.loads(str(stored["facts"]))
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in metadata.items()}
    return kind(**plain, **arrays)


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedTable:
    """Rows in stated units, and the matrix that converts coefficients to standard deviations.

    ``to_standard @ coef`` are means or slopes in standard deviations of all rows, without the intercept. The
    matrix is computed from the data and is for measuring errors only.
    """

    X: npt.NDArray[np.floating[Any]]  # (n, d), C-contiguous; the intercept's column of ones is the last
    y: FloatArray | None  # (n,); None for a mean
    column_names: tuple[str, ...]
    to_standard: FloatArray | None  # (k, d)
    # (n,): a flock's simulation or a user, ascending; or a user on a map, −1 for rows of none.
    groups: npt.NDArray[np.int64] | None = None
    weights: FloatArray | None = None  # (n,)

    @property
    def weights_of_rows(self) -> FloatArray | None:
        """The weight of each row where users count once, (n,), of mean 1; None if all are equal."""
        if self.weights is None and self.groups is None:
            return None
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        if (users := self.groups) is not None:
            weights = np.where(users >= 0, weights / np.bincount(users[users >= 0])[users], 0)
        return np.asarray(weights / weights.mean())

    def taken(self, rows: npt.NDArray[Any]) -> "PreparedTable":
        """Return some rows, or all in another order."""
        y, groups, weights = (
            None if each is None else each[rows] for each in (self.y, self.groups, self.weights)
        )
        return replace(self, X=self.X[rows], y=y, groups=groups, weights=weights)


def prepare_table(
    table: "pd.DataFrame",
    dataset: Dataset,
    *,
    covariates: Sequence[str],
    response: str,
    units: Units,
    raw_response: bool = False,
) -> PreparedTable:
    """Prepare covariates for a mean, or with a response for a regression.

    ``"public"`` units are ``(value - center) / scale`` with the registry's constants; a regression has an
    intercept. ``"standardized"`` units are z-scores from the full data (divisor n). They have an intercept
    only if the response is raw: counts and labels of a generalized linear model are not transformed.
    """
    names = (*covariates, response) if response else tuple(covariates)
    columns = [dataset.column(name) for name in names]
    values = table[list(names)].to_numpy(dtype=np.float64)
    # Rounding may give a constant column a positive standard deviation.
    mean, std = values.mean(axis=0), np.where(np.ptp(values, axis=0) > 0, values.std(axis=0), 0.0)
    # In public units some covariates may be constant: their coefficients are not part of the error.
    constant = [name for name, spread in zip(names, std, strict=True) if not spread > 0]
    if units == "public" and not set(covariates) <= set(constant):
        constant = [name for name in constant if name == response]
    if constant:
        raise DataError(
            f"{dataset.name} has columns that are constant: {', '.join(map(repr, constant))}; leave them out "
            "(of 'column=category' the category)"
        )
    center, scale = public_units(dataset, columns) if units == "public" else (mean, std)
    if raw_response:
        center, scale, std = np.append(center[:-1], 0.0), np.append(scale[:-1], 1.0), np.append(std[:-1], 1.0)
    columns = list(map(Column.in_units, names, center, scale))
    d = len(covariates)
    intercept = bool(response) and (units == "public" or raw_response)
    # A slope in these units is one scale of y per scale of x; in z-scores, one standard deviation each.
    if response:
        factors = (std[:d] / scale[:d]) * (scale[-1] / std[-1])
    else:  # a constant column does not count towards the error
        factors = np.divide(scale, std, out=np.zeros(d), where=std > 0)
    last = columns[-1] if response else None
    X, y = rows_in_units(table, columns[:d], last, intercept=intercept)
    return PreparedTable(
        X=X,
        y=y,
        column_names=(*covariates, INTERCEPT) if intercept else tuple(covariates),
        to_standard=np.eye(d, X.shape[1]) * np.append(factors, np.ones(X.shape[1] - d)),
    )


def public_units(dataset: Dataset, columns: Sequence[Column]) -> tuple[FloatArray, FloatArray]:
    """Return the registry's centers and scales of columns; refuse a column without them."""
    for column in columns:
        if column.scale is None:
            raise DataError(
                f"column {column.name!r} of {dataset.name} has no public center and scale; "
                "add them to its DATASET"
            )
    return (
        np.array([column.center for column in columns], dtype=np.float64),
        np.array([column.scale for column in columns], dtype=np.float64),
    )


def draw_rows(n_rows: int, m: int, rngs: Sequence[np.random.Generator]) -> npt.NDArray[np.bool_]:
    """Draw m distinct rows per replicate, uniformly: a mask (n_rows, R), with one contiguous column each.

    Replicate r depends on ``rngs[r]`` alone.
    """
    require_size("m", m, n_rows, "the rows of the dataset")
    # The held-out rows are as random as the drawn rows; drawing the smaller set is cheaper.
    complement = m > n_rows // 2
    n_drawn = n_rows - m if complement else m
    masks = np.full((len(rngs), n_rows), complement)
    for mask, rng in zip(masks, rngs, strict=True):
        mask[rng.choice(n_rows, n_drawn, replace=False, shuffle=False)] = not complement
    return masks.T


def draw_training_rows(
    table: PreparedTable, n: int, rngs: Sequence[np.random.Generator], *, whole_groups: bool
) -> Mask:
    """Draw n training rows per replicate, (n_rows, R); the other rows are for the test.

    With groups, as many whole groups are drawn as fit. Replicate r depends on ``rngs[r]`` only.
    """
    n_rows = len(table.X)
    require_size("n", n, n_rows - 1, "since some rows are for the test")
    masks = np.zeros((len(rngs), n_rows), dtype=bool)
    if not whole_groups:
        for mask, rng in zip(masks, rngs, strict=True):
            mask[rng.permutation(n_rows)[:n]] = True
        return masks.T
    if table.groups is None:
        raise DataError("groups='simulations' needs simulated frames, these are not; use groups='rows'")
    count = int(table.groups[-1]) + 1
    chosen = n * count // n_rows
    if not 1 <= chosen < count:
        raise DataError(f"n must leave one of {count:,} groups to either part, got {n}; choose another")
    for mask, rng in zip(masks, rngs, strict=True):
        trained = np.zeros(count, dtype=bool)
        trained[rng.permutation(count)[:chosen]] = True
        mask[:] = trained[table.groups]
    return masks.T


def by_use(table: PreparedTable, mask: Mask) -> tuple[PreparedTable, Mask]:
    """Return copies of the rows and of the mask (n, R), with rows of the same replicates next to each other.

    Between neighboring sets of replicates, one replicate is added or removed (a Gray code). Few replicates
    then use a row of a block.
    """
    order = np.lexsort(np.logical_xor.accumulate(mask, axis=1).T[::-1])
    table = replace(table, groups=None).taken(order)
    table.X.flags.writeable = False
    return table, np.asfortranarray(mask[order])
