"""How an answer in public units is converted to the units of the file, and to the terms of a formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpalgos.intervals.half_widths import WHY, along
from dpalgos.typing import FloatArray
from tasks.problems.formula import FormulaColumns

AT_CENTERS = "at the centers"


@dataclass(frozen=True, eq=False, kw_only=True)
class FileUnits:
    """Convert an estimator's answer to the units of the file."""

    names: tuple[str, ...]  # of the k coordinates of the answer
    factor: FloatArray  # (k,), positive: ``factor * answer + offset`` is in the units of the file
    offset: FloatArray
    declared: dict[str, Any] = field(default_factory=dict)  # is part of the question that the ledger knows
    terms: tuple[str, ...] = ()  # of a formula, to which ``back`` (m, k) leads
    back: FloatArray | None = None
    reach: tuple[float, ...] | None = None  # largest absolute values of columns and response, by their bounds

    @classmethod
    def unchanged(cls, names: Sequence[str]) -> "FileUnits":
        """Return those of columns that the estimator gets as they are."""
        return cls(names=tuple(names), factor=np.ones(len(names)), offset=np.zeros(len(names)))

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the numbers that are shown."""
        return self.terms or self.names

    @property
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """A (m, k) and b (m,): A x + b is an answer x in the units of the file."""
        back = np.eye(len(self.names)) if self.back is None else self.back
        return back * self.factor, back @ self.offset

    def of(self, answer: FloatArray) -> FloatArray:
        """Return the released coordinates, (k,) or (k, several), in the units of the file."""
        own = np.asarray((answer.T * self.factor + self.offset).T)
        return own if self.back is None else np.asarray(self.back @ own)

    def ends_of(self, ends: FloatArray, notes: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
        """Return the ends (m, 2) of intervals (2, k) in the units of the file, and why there are none."""
        if self.back is None:
            return self.of(ends.T), np.asarray(notes.get(WHY, np.zeros((len(self.names), 1))))
        found, why = along(notes, ends, self.back * self.factor)
        return found.T + (self.back @ self.offset)[:, None], why

    def by_formula(self, formula: FormulaColumns) -> "FileUnits":
        """Return those that end at the terms of a formula."""
        units = self.declared["units"]
        # From the answer per unit of the file, about the centers, to that of the basis in its own units.
        columns = {column.name: column for column in formula.basis.columns}
        own = np.zeros((len(self.names), len(self.names)))
        order = [self.names.index(name) for name in columns]
        for i, (j, column) in enumerate(zip(order, columns.values(), strict=True)):
            own[i, j] = column.scale
            own[-1, j] = column.center - units[column.name][0]
        own[-1, -1] = 1.0
        declared = {**self.declared, "terms": list(formula.design.terms)}
        return replace(self, terms=formula.design.terms, back=formula.basis.back @ own, declared=declared)
