"""A registered table in stated units, ready for estimators, and random draws of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from data.errors import DataError

Units = Literal["public", "standardised"]
INTERCEPT = "intercept"

Mask = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedTable:
    """Rows in stated units, and the way from coefficients to standard deviations.

    Attributes
    ----------
    X : (n, d) array of float64, or of float32 for frames
        C-contiguous; the intercept's column of ones, if any, is the last.
    y : (n,) array or None
        Responses; None for a mean.
    column_names : tuple of str
        Names of the d columns.
    to_standard : (k, d) array or None
        ``to_standard @ coef`` are means or slopes in standard deviations of all the rows, for coefficients
        ``(d,)`` or ``(d, R)``; the intercept has no part in them. Computed from the data: for measuring
        errors only. None where no error of coefficients is measured.
    groups : (n,) int array or None
        Which group of rows a row is of (alike ones of a flock's simulation, or one user's), ascending; None
        if there are none or they are not known.
    private : bool
        Whether a guarantee on a fit covers this preparation too.
    note : str
        One or two sentences for the report.
    """

    X: npt.NDArray[np.floating[Any]]
    y: FloatArray | None
    column_names: tuple[str, ...]
    to_standard: FloatArray | None
    groups: npt.NDArray[np.int64] | None = None
    private: bool
    note: str


def draw_rows(n_rows: int, m: int, rngs: Sequence[np.random.Generator]) -> npt.NDArray[np.bool_]:
    """Draw m distinct rows per replicate, uniformly.

    Parameters
    ----------
    n_rows : int
        Rows to draw from.
    m : int
        Rows per replicate.
    rngs : sequence of numpy.random.Generator
        One per replicate; replicate r depends on ``rngs[r]`` alone.

    Returns
    -------
    (n_rows, R) boolean array
        Fortran-ordered, one contiguous column per replicate, with m rows true.

    Raises
    ------
    DataError
        m is not between 1 and n_rows.
    """
    if not 1 <= m <= n_rows:
        raise DataError(
            f"m must be between 1 and the {n_rows:,} rows there are, got {m}; choose another size"
        )
    # The rows left out are as random as the rows drawn; fewer are cheaper.
    complement = m > n_rows // 2
    n_drawn = n_rows - m if complement else m
    masks = np.full((len(rngs), n_rows), complement)
    for mask, rng in zip(masks, rngs, strict=True):
        mask[rng.choice(n_rows, n_drawn, replace=False, shuffle=False)] = not complement
    return masks.T


def draw_training_rows(
    table: PreparedTable, n: int, rngs: Sequence[np.random.Generator], *, whole_groups: bool
) -> Mask:
    """Draw the training rows of each replicate; the other rows are for the test.

    Parameters
    ----------
    table : PreparedTable
    n : int
        Rows to train on; by groups, as many whole groups as fit.
    rngs : sequence of numpy.random.Generator
        One per replicate; replicate r depends on ``rngs[r]`` alone.
    whole_groups : bool

    Returns
    -------
    (n_rows, R) boolean array
        Fortran-ordered.

    Raises
    ------
    DataError
        n leaves nothing to train on or to test on, or groups are not known.
    """
    n_rows = len(table.X)
    if not 1 <= n < n_rows:
        raise DataError(
            f"n must be between 1 and {n_rows - 1:,}, so that some of the {n_rows:,} rows are left to test "
            f"on, got {n}; choose another size"
        )
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
