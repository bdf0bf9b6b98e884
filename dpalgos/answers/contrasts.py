"""Tests of linear hypotheses about coefficients, named and written as in statsmodels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

# Names that are empty, are numbers, or begin with an operator: hypotheses would be read otherwise than meant.
_UNCLEAR = re.compile(r"\s*([-+*/=,(]|$|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$)", re.IGNORECASE)


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastResults:
    """Tests of R β = q, one for each row of R.

    Attributes
    ----------
    effect, sd, statistic, pvalue : (q,) arrays
        R β, the half-width of its interval over the normal quantile, (R β − q) over that, and the two-sided
        p-value of a normal law; NaN where the interval of R β is missing.
    ends : (q, 2) array
        Intervals of R β at ``level``.
    note : str
        Why tests are missing.
    """

    names: tuple[str, ...]
    effect: FloatArray
    sd: FloatArray
    null: FloatArray
    ends: FloatArray
    level: float
    note: str = ""

    @property
    def statistic(self) -> FloatArray:
        return np.asarray((self.effect - self.null) / self.sd)

    tvalue = statistic  # as statsmodels calls it

    @property
    def pvalue(self) -> FloatArray:
        return np.asarray(2 * scipy.special.ndtr(-np.abs(self.statistic)))

    def conf_int(self) -> FloatArray:
        """Return the ends of the intervals, (q, 2)."""
        return self.ends

    def summary_frame(self) -> Any:
        """Return a data frame with a row per hypothesis and statsmodels' columns."""
        columns = ("coef", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp.")
        values = (self.effect, self.sd, self.statistic, self.pvalue, *self.ends.T)
        return frame_of({"": self.names, **dict(zip(columns, values, strict=True))}).set_index("")

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.summary_frame().to_string(), self.note]))


@dataclass(frozen=True, kw_only=True)
class WaldResults:
    """A joint test of several hypotheses: its statistic, the law of which is χ² with ``df_num``."""

    statistic: float
    pvalue: float
    df_num: int
    note: str = ""


def constraints_of(r_matrix: Any, terms: Sequence[str]) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return R (q, k), q (q,) and a name for each row.

    ``r_matrix`` is text such as ``"age - 10 * smoker = 0, bmi = 2"``, an array (q, k) or (k,), or a pair of R
    and q. Text is refused where it could be read in two ways: of a column "2", ``x = 2`` names two terms.
    """
    from patsy import DesignInfo, PatsyError

    if isinstance(r_matrix, str) and (unclear := [term for term in terms if _UNCLEAR.match(term)]):
        raise InputError(
            f"r_matrix must be an array with a weight for each of {len(terms)} terms where a name is no "
            f"word, as {unclear[0]!r}, got {r_matrix!r}; pass one, or rename the column"
        )
    try:
        found = DesignInfo(list(terms)).linear_constraint(r_matrix)
    except (PatsyError, ValueError, TypeError):
        shown = r_matrix if isinstance(r_matrix, str) else f"an array of shape {np.shape(r_matrix)}"
        raise InputError(
            f"r_matrix must be like {f'{terms[0]} - 10 * {terms[-1]} = 0'!r}, of {', '.join(terms)}, or have "
            f"a weight for each, got {shown!r}"
        ) from None
    R, values = np.asarray(found.coefs, dtype=float), np.asarray(found.constants, dtype=float).ravel()
    if not np.isfinite(R).all() or not R.any(axis=1).all():
        raise InputError("r_matrix must have finite weights, and no row of zeros, got others")
    names = [part.strip() for part in r_matrix.split(",")] if isinstance(r_matrix, str) else []
    return R, values, tuple(names) if len(names) == len(R) else tuple(f"c{j}" for j in range(len(R)))


def joint_test(off: FloatArray, sd: FloatArray, covariance: FloatArray, note: str) -> WaldResults:
    """Return the Wald test that values, ``off`` (q,), are zero.

    Standard errors are those of the intervals, which count bounds on a bias; correlations are those of
    ``covariance`` (q, q).
    """
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(off):
        raise InputError("r_matrix must have rows none of which follows from the others; leave some out")
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    statistic = float((off / sd) @ np.linalg.solve(correlation, off / sd))
    return WaldResults(
        statistic=statistic,
        pvalue=float(scipy.special.chdtrc(len(off), statistic)),
        df_num=len(off),
        note=note,
    )
