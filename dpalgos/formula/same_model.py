"""Whether two formulas are one model: their columns are equal on the public rows, however they are written.

``log(x)`` and ``np.log(x)`` have equal columns, as do ``I(x*z)`` and ``x:z``, and ``x + z`` and ``z + x`` in
another order. A column is recognized by its largest size and by a few weighted sums, to eight digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpalgos.formula.columns import public_rows
from dpalgos.formula.design import FormulaDesign
from dpalgos.typing import FloatArray

_ROWS, _SUMS, _DIGITS = 1024, 3, 8


def signature_of(design: FormulaDesign) -> list[Any]:
    """Return what determines a model with its declared columns, as plain data: its columns, in any order."""
    rows = public_rows({name: design.declared[name] for name in sorted(design.declared)}, _ROWS)
    sides = [_signature(each.values(rows)) if each else "" for each in (design.response, design.offset)]
    time = design.survival
    times = [*time.names, *time.periods, time.all_events] if time else []
    return [sorted(map(_signature, design.code.values(rows).T)), sides, times]


def _signature(column: FloatArray) -> str:
    size = float(np.abs(column).max())
    phases = np.arange(len(column)) * np.sqrt(2) * np.arange(1, _SUMS + 1)[:, None]
    sums = np.cos(phases) @ column / (size * np.sqrt(len(column)) or 1.0)
    return " ".join([f"{size:.{_DIGITS}g}", *(f"{each + 0.0:.{_DIGITS}f}" for each in sums.round(_DIGITS))])
