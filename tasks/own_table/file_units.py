"""How an estimate in public units is converted to the units of the file, and to the terms of a formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpalgos.formula.design import INTERCEPT, FormulaDesign
from dpalgos.interval import Interval
from dpalgos.typing import FloatArray
from tasks.errors import SpecError

AT_CENTERS = "at the centers"


@dataclass(frozen=True, eq=False, kw_only=True)
class FileUnits:
    """Convert an estimator's answer to the units of the file."""

    names: tuple[str, ...]  # of the k coordinates of the answer
    factor: FloatArray  # (k,), positive: ``factor * answer + offset`` is in the units of the file
    offset: FloatArray
    terms: tuple[str, ...] = ()  # of a formula, to which ``back`` (m, k) leads
    back: FloatArray | None = None
    groups: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # declared → what it has of those shown
    columns: tuple[str, ...] = ()  # that a formula may name
    reach: tuple[float, ...] | None = None  # largest absolute values of columns and response, by their bounds

    def __post_init__(self) -> None:
        if twice := [name for name in self.shown if self.shown.count(name) > 1]:
            raise SpecError(f"two coefficients would be called {twice[0]!r}; rename that column of the file")

    @classmethod
    def unchanged(cls, names: Sequence[str]) -> "FileUnits":
        """Return those of columns that the estimator gets as they are."""
        return cls(names=tuple(names), factor=np.ones(len(names)), offset=np.zeros(len(names)))

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the numbers that are shown."""
        return self.terms or self.names

    @property
    def intercept(self) -> str:
        """The name of the intercept, "" if there is none."""
        return next((name for name in (INTERCEPT, AT_CENTERS) if name in self.shown), "")

    @property
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """A (m, k) and b (m,): A x + b is an estimate x in the units of the file."""
        back = np.eye(len(self.names)) if self.back is None else self.back
        return back * self.factor, back @ self.offset

    def of(self, answer: FloatArray) -> FloatArray:
        """Return the released coordinates, (k,) or (k, several), in the units of the file."""
        raw = np.asarray((answer.T * self.factor + self.offset).T)
        return raw if self.back is None else np.asarray(self.back @ raw)

    def answer_of(self, shown: Mapping[str, float], *, has_offset: bool = False) -> FloatArray:
        """Return the coordinates (k,) of an estimate shown by name; the first, of an offset, is 1."""
        if set(shown) != set(self.shown):
            raise SpecError(
                f"params.coef must be a record of {', '.join(self.shown)}, got one of {', '.join(shown)}; "
                "name the record of an estimate by these columns"
            )
        back, shift = self.affine
        known, first = np.ones(int(has_offset)), int(has_offset)
        own = np.array([shown[name] for name in self.shown]) - shift - back[:, :first] @ known
        return np.concatenate([known, np.linalg.lstsq(back[:, first:], own, rcond=None)[0]])

    def ends_of(self, found: Interval, answer: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return confidence limits (m, 2) of an estimate (k,) in the units of the file, and reasons."""
        one = answer.reshape(-1, 1)
        if self.back is None:
            return self.of(found.ends(one)[..., 0].T), found.codes
        matrix = self.back * self.factor
        along = found.along(matrix, one)
        ends = along.ends(matrix @ one)[..., 0].T
        return ends + (self.back @ self.offset)[:, None], along.codes

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
            groups=design.groups,
            columns=tuple(design.declared),
        )
