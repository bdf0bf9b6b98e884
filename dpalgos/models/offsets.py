"""Offsets of linear predictors: η = o + x'β for a private column o, e.g. the logarithm of an exposure.

The offset is the first column of X, cut to public bounds. It has no coefficient to estimate. The estimate
has a 1 in its place, without error. Therefore o + x'β is X times the estimate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.core.estimator import AnyEstimator
from dpalgos.errors import InputError, shown
from dpalgos.models.families import Family
from dpalgos.params import checked
from dpalgos.release.checks import is_number
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_LARGEST = 100.0  # e^100 and its square are numbers


def _check_bounds(name: str, value: Any) -> tuple[float, float]:
    numbers = list(value) if isinstance(value, tuple | list | np.ndarray) else []
    if len(numbers) != 2 or not all(map(is_number, numbers)) or not -_LARGEST <= numbers[0] < numbers[1]:
        raise InputError(
            f"{name} must be public bounds (lower, upper) of the first column, lower < upper, "
            f"got {shown(value)}"
        )
    if numbers[1] > _LARGEST:
        raise InputError(
            f"{name} must lie within ±{_LARGEST:g}, got {shown(value)}; change the exposure's unit"
        )
    return float(numbers[0]), float(numbers[1])


@dataclass(frozen=True, kw_only=True)
class OffsetEstimator(AnyEstimator):
    """The keyword of regressions that take an offset."""

    offset_bounds: tuple[float, float] | None = checked(
        "public bounds of an offset, the first column of X, whose coefficient is 1; default: no offset",
        _check_bounds,
        default=None,
        optional=True,
    )

    def check_offset(self, family: Family) -> None:
        """Refuse an offset next to classes, of which each would need its own."""
        if self.offset_bounds is not None and family.needs_classes:
            raise InputError(
                f"offset_bounds must be left out for family={family.name!r}, got {self.offset_bounds!r}"
            )

    def covariates(self, sample: Sample) -> Sample:
        """Return the sample whose first column, if it is an offset, is one."""
        self.check_columns(sample.n_features)
        return sample if self.offset_bounds is None else sample.with_offset(self.offset_bounds)

    def check_columns(self, d: int) -> None:
        """Refuse an offset alone."""
        if self.offset_bounds is not None and d < 2:
            raise InputError(
                "X must have a column next to the offset, got the offset alone; add the constant 1"
            )

    def coefficients(self, others: FloatArray) -> FloatArray:
        """Return coefficients with that of the offset, if there is one, before the others."""
        return others if self.offset_bounds is None else np.insert(others, 0, 1.0, axis=0)
