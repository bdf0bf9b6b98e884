"""Tests of linear hypotheses about coefficients, in the notation of statsmodels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from dpalgos.answers.names import reading_of
from dpalgos.errors import InputError
from dpalgos.release.checks import LARGEST_VALUE
from dpalgos.spelling import check_labels
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class WaldResults:
    """A joint test of several hypotheses: its statistic has a χ² distribution with ``df_num``."""

    statistic: float
    df_num: int
    note: str = ""

    @property
    def pvalue(self) -> float:
        return float(scipy.special.chdtrc(self.df_num, self.statistic))


def constraints_of(
    r_matrix: Any, terms: Sequence[str], columns: Sequence[str] = ()
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return R (q, k), q (q,) and a name for each row.

    ``r_matrix`` is text such as ``"age - 10 * smoker = 0, `pre-post` = 2"``, an array (q, k) or (k,), or a
    pair of R and q. A name with marks must be quoted.
    """
    if not isinstance(r_matrix, str):
        check_labels({"r_matrix": r_matrix}, terms, "the coefficients")
        R, values = _constraints(r_matrix, terms, "an array of another shape", terms)
        return R, values, tuple(f"c{j}" for j in range(len(R)))
    if not r_matrix.strip():
        raise InputError(f"r_matrix must be a hypothesis such as {f'{terms[0]} = 0'!r}, got {r_matrix!r}")
    reading = reading_of(r_matrix, terms, columns) or ["?"]  # which is refused
    text = "".join(f"t{part}_" if isinstance(part, int) else _plain(part) for part in reading)
    sides = [hypothesis.split("=") for hypothesis in text.split(",")]
    rows = [
        " - ".join(f"({side})" for side in both)
        for each in sides
        for both in (pairwise(each) if each[1:] else [each])
    ]
    R, values = _constraints(rows, [f"t{j}_" for j in range(len(terms))], repr(r_matrix), terms)
    text = "".join(_placeholder(part) if isinstance(part, int) else part for part in reading)
    names = tuple(_restored(each.strip(), terms) for each in text.split(","))
    return R, values, names if len(names) == len(R) else (r_matrix,) * len(R)  # a = b = c is two


def check_hypotheses(name: str, text: str, terms: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse hypotheses about other coefficients than ``terms``; ``name`` is what the user calls them."""
    try:
        constraints_of(text, terms, columns)
    except InputError as error:
        raise InputError(str(error).replace("r_matrix", name, 1)) from None


def _constraints(
    r_matrix: Any, names: Sequence[str], text: str, terms: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return R (q, k) and q (q,) of hypotheses about names."""
    from formulaic.errors import FormulaSyntaxError
    from formulaic.utils.constraints import LinearConstraints

    try:
        constraint = LinearConstraints.from_spec(r_matrix, variable_names=names)
        R = np.asarray(constraint.constraint_matrix, dtype=float)
        values = np.asarray(constraint.constraint_values, dtype=float).ravel()
    except (FormulaSyntaxError, ValueError, TypeError, LookupError, RuntimeError, ZeroDivisionError):
        raise InputError(
            f"r_matrix must be like {f'{terms[0]} - 10 * {terms[-1]} = 0'!r}, of {', '.join(terms)}, or have "
            f"a weight for each, got {text}"
        ) from None
    if not (len(R) and R.any(axis=1).all() and (np.abs(np.column_stack([R, values])) <= LARGEST_VALUE).all()):
        raise InputError(
            f"r_matrix must have finite numbers of at most {LARGEST_VALUE:g}, and no row of zeros, got other "
            "values"
        )
    return R, values


def _plain(part: str) -> str:
    """Return a number without an exponent, which formulaic cannot read; all else as it is."""
    return np.format_float_positional(float(part)) if re.fullmatch(r"[\d.]+e[+-]?\d+", part, re.I) else part


def _placeholder(number: int) -> str:
    return f"\0{number}\0"


def _restored(text: str, terms: Sequence[str]) -> str:
    return re.sub("\0(\\d+)\0", lambda one: terms[int(one[1])], text)


def joint_test(off: FloatArray, sd: FloatArray, covariance: FloatArray, note: str) -> WaldResults:
    """Return the Wald test that values, ``off`` (q,), are zero.

    Standard errors are those of the intervals, which include bounds on a bias. Correlations are those of
    ``covariance`` (q, q).
    """
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(off):
        raise InputError("r_matrix must have linearly independent rows; drop some")
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    statistic = float((off / sd) @ np.linalg.solve(correlation, off / sd))
    return WaldResults(statistic=statistic, df_num=len(off), note=note)
