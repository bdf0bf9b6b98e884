"""Prepare: public units or full-data z-scores, and random subsamples without replacement.

Whatever units a design uses, errors are measured in z-scores of all the rows, so that designs compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from data.data_errors import DataError
from data.registry import Dataset

VARIANTS = ("public", "paper")
INTERCEPT = "intercept"

_NOTES = {
    "public": (
        "Centres and scales are public constants and an intercept is fitted, so the privacy guarantee "
        "covers the preparation as well."
    ),
    "paper": (
        "Columns are standardised by the mean and standard deviation of the full data, as in the paper; "
        "this step is not private and no guarantee covers it."
    ),
}

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Design:
    """A regression problem in stated units, and the way from its coefficients to z-scores.

    Attributes
    ----------
    X : (n, d) array
        C-contiguous; the intercept's column of ones, if any, is the last.
    y : (n,) array
    column_names : tuple of str
        Names of the d columns.
    to_z : (d_slopes, d) array
        ``to_z @ coef`` are the slopes in z-scores of all the rows, for coefficients ``(d,)`` or
        ``(d, R)``; the intercept has no part in them. Computed from the data: for measuring errors only.
    private : bool
        Whether a guarantee on the fit covers this preparation too.
    note : str
        One or two sentences for the report.
    variant : {"public", "paper"}
    """

    X: FloatArray
    y: FloatArray
    column_names: tuple[str, ...]
    to_z: FloatArray
    private: bool
    note: str
    variant: str


def design(
    table: pd.DataFrame,
    dataset: Dataset,
    *,
    response: str,
    covariates: Sequence[str],
    variant: Literal["public", "paper"],
) -> Design:
    """Build the design of a regression of `response` on `covariates`.

    Parameters
    ----------
    table : pandas.DataFrame
        From `data.ingest.read_table`.
    dataset : Dataset
        Supplies the public centres and scales.
    response : str
    covariates : sequence of str
    variant : {"public", "paper"}
        ``"public"``: ``(value - center) / scale`` with the registry's constants, and an intercept.
        ``"paper"``: z-scores by the full data (divisor n), no intercept; not private.

    Returns
    -------
    Design

    Raises
    ------
    DataError
        Unknown variant or column, a column used twice, without public units or constant.
    """
    if variant not in VARIANTS:
        raise DataError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}; pick one")
    names = (*covariates, response)
    if not covariates or len(set(names)) < len(names):
        raise DataError(
            f"covariates must be distinct columns other than the response, got {list(covariates)} "
            f"for {response!r}; name each once"
        )
    columns = [dataset.column(name) for name in names]
    if missing := [name for name in names if name not in table.columns]:
        raise DataError(
            f"the table of {dataset.name} lacks {missing}; run `dpcost ingest {dataset.name} --again`"
        )
    values = table[list(names)].to_numpy(dtype=np.float64)
    mean, std = values.mean(axis=0), values.std(axis=0)
    for name, spread in zip(names, std, strict=True):
        if not spread > 0:
            raise DataError(f"column {name!r} of {dataset.name} is constant; leave it out")

    if variant == "paper":
        z = (values - mean) / std
        return Design(
            X=np.ascontiguousarray(z[:, :-1]),
            y=z[:, -1].copy(),
            column_names=tuple(covariates),
            to_z=np.eye(len(covariates)),
            private=False,
            note=_NOTES[variant],
            variant=variant,
        )

    for column in columns:
        if column.scale is None:
            raise DataError(
                f"column {column.name!r} of {dataset.name} has no public center and scale; "
                "add them to data/registry.toml"
            )
    center = np.array([column.center for column in columns], dtype=np.float64)
    scale = np.array([column.scale for column in columns], dtype=np.float64)
    units = (values - center) / scale
    # A slope in public units is one scale of y per scale of x; in z-scores, one standard deviation each.
    slopes = (std[:-1] / scale[:-1]) * (scale[-1] / std[-1])
    return Design(
        X=np.ascontiguousarray(np.column_stack([units[:, :-1], np.ones(len(units))])),
        y=units[:, -1].copy(),
        column_names=(*covariates, INTERCEPT),
        to_z=np.column_stack([np.diag(slopes), np.zeros(len(slopes))]),
        private=True,
        note=_NOTES[variant],
        variant=variant,
    )


def full_sample_target(design: Design) -> FloatArray:
    """Return the ordinary least squares slopes of all the rows, in z-scores.

    Parameters
    ----------
    design : Design
        Either variant: in exact arithmetic both give the same slopes.

    Returns
    -------
    (d_slopes,) array
    """
    coef = np.linalg.lstsq(design.X, design.y, rcond=None)[0]
    return np.asarray(design.to_z @ coef)


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
