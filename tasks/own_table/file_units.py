"""How an estimate in public units is converted to the units of the file, and to the terms of a formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from data.columns import Column
from dpalgos.formula.code import INTERCEPT
from dpalgos.formula.design import FormulaDesign
from dpalgos.goodness import farthest
from dpalgos.interval import Interval
from dpalgos.typing import FloatArray
from tasks.errors import SpecError

AT_CENTERS = "at the centers"


@dataclass(frozen=True, eq=False, kw_only=True)
class FileUnits:
    """Convert an estimate to the units of the file."""

    names: tuple[str, ...]  # of the k coordinates of the estimate
    factor: FloatArray  # (k,), positive: ``factor * estimate + offset`` is in the units of the file
    offset: FloatArray
    terms: tuple[str, ...] = ()  # of a formula, to which ``back`` (m, k) leads
    back: FloatArray | None = None
    groups: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # declared → what it has of those shown
    columns: tuple[str, ...] = ()  # that a formula may name
    reach: tuple[float, ...] | None = None  # largest absolute values of columns and response, by their bounds

    def __post_init__(self) -> None:
        if twice := [name for name in self.coef_names if self.coef_names.count(name) > 1]:
            raise SpecError(f"two coefficients would be called {twice[0]!r}; rename that column of the file")

    @classmethod
    def unchanged(cls, names: Sequence[str]) -> "FileUnits":
        """Return those of columns that the estimator gets as they are."""
        return cls(names=tuple(names), factor=np.ones(len(names)), offset=np.zeros(len(names)))

    @property
    def coef_names(self) -> tuple[str, ...]:
        """The names of the coefficients in the units of the file."""
        return self.terms or self.names

    @property
    def intercept(self) -> str:
        """The name of the intercept, "" if there is none."""
        return next((name for name in (INTERCEPT, AT_CENTERS) if name in self.coef_names), "")

    @property
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """A (m, k) and b (m,): A x + b is an estimate x in the units of the file."""
        back = np.eye(len(self.names)) if self.back is None else self.back
        return back * self.factor, back @ self.offset

    def of(self, answer: FloatArray) -> FloatArray:
        """Return the released coordinates, (k,) or (k, several), in the units of the file."""
        raw = np.asarray((answer.T * self.factor + self.offset).T)
        return raw if self.back is None else np.asarray(self.back @ raw)

    def answer_of(self, coef: Mapping[str, float], *, has_offset: bool = False) -> FloatArray:
        """Return the coordinates (k,) of coefficients by name; the first, of an offset, is 1."""
        names = self.coef_names
        if set(coef) != set(names):
            raise SpecError(
                f"params.coef must be a record of {', '.join(names)}, got {', '.join(coef)}; "
                "name the record of an estimate by these columns"
            )
        back, shift = self.affine
        known, first = np.ones(int(has_offset)), int(has_offset)
        raw = np.array([coef[name] for name in names]) - shift - back[:, :first] @ known
        return np.concatenate([known, np.linalg.lstsq(back[:, first:], raw, rcond=None)[0]])

    def limits_of(self, interval: Interval, answer: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return confidence limits (m, 2) of an estimate (k,) in the units of the file, and reasons."""
        one = answer.reshape(-1, 1)
        if self.back is None:
            return self.of(interval.limits(one)[..., 0].T), interval.codes
        matrix = self.back * self.factor
        along = interval.along(matrix, one)
        limits = along.limits(matrix @ one)[..., 0].T
        return limits + (self.back @ self.offset)[:, None], along.codes

    def half_widths(self, names: Sequence[str], widths: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
        """Return half-widths (…, k) of intervals of some coordinates in the units of the file, by shown name.

        Those of a formula's terms, but the intercept, count its columns as not correlated.
        """
        positions = [self.names.index(name) for name in names]
        if self.back is None:
            return tuple(names), widths * self.factor[positions]
        slopes = [j for j, term in enumerate(self.terms) if term != INTERCEPT]
        squares = (self.back * self.factor)[np.ix_(slopes, positions)] ** 2
        parts = np.where(squares > 0, widths[..., None, :] ** 2 * squares, 0.0)  # also where a width is NaN
        return tuple(self.terms[j] for j in slopes), np.sqrt(parts.sum(axis=-1))

    def by_formula(self, design: FormulaDesign) -> "FileUnits":
        """Return those that end at the terms of a formula."""
        return replace(
            self,
            terms=design.terms,
            back=design.back,
            groups=design.by_term,
            columns=tuple(design.declared),
        )


def file_units(columns: Sequence[Column], response: Column | None) -> FileUnits:
    """Return the units of a mean of columns, or of their regression with an intercept.

    Where the public bounds of the response are known, so is how far each column reaches.
    """
    names = tuple(column.name for column in columns)
    centers, scales = np.array([(each.center, each.scale) for each in columns], dtype=float).T
    if response is None:
        return FileUnits(names=names, factor=scales, offset=centers)
    center, scale = response.center or 0.0, response.scale or 1.0
    return FileUnits(
        names=(*names, AT_CENTERS),
        factor=np.append(scale / scales, scale),
        offset=np.append(np.zeros(len(scales)), center),
        reach=(*farthest(columns), 1.0, *farthest([response])) if np.isfinite(response.upper) else None,
    )
