"""The scikit-learn classes for means."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpalgos.errors import warn
from dpalgos.sklearn.base import PrivateModel, UnitModel
from dpalgos.sklearn.checked import checked_rows

_NEAR = 0.9  # of the bound


class _PrivateMean(PrivateModel):
    def _rows(self) -> list[tuple[str, float]]:
        return list(zip(self._names(), self.mean_, strict=True))


@dataclass(kw_only=True, eq=False, repr=False)
class DPMean(_PrivateMean, UnitModel):
    """The private mean of each column.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Parameters
    ----------
    value_bound : float
        Entries of X, in public units, are clipped to plus or minus this bound.

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "dp_mean"

    value_bound: float

    def fit(self, X: object, y: object = None, user_ids: object = None) -> Self:
        """Fit to X (n, d); y is ignored. Each person of ``user_ids`` (n,) counts once."""
        rows = checked_rows(self, X)
        units = self._units_of(rows)
        scaled = units.apply(rows)
        answer = self._released(scaled, None, lambda: units.clipped_sides(rows), user_ids=user_ids).estimate
        reach = np.abs((np.stack([units.lower, units.upper]) - units.center) / units.scale).max(axis=0)
        if ((abs(answer) > _NEAR * self.value_bound) & (reach > self.value_bound)).any():
            warn(
                f"a mean is within {1 - _NEAR:.0%} of value_bound = {self.value_bound:g}; many entries may "
                "be clipped; check the bound and the units",
                UserWarning,
            )
        self.mean_ = units.undo(answer)
        self.interval_ = None if self.interval_ is None else units.undo(self.interval_)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class DPBoundedMean(_PrivateMean):
    """The private mean of columns with a known range, with the smallest noise for that range.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Parameters
    ----------
    lower, upper : float or (d,) array_like
        Public bounds of each column, or of all columns, in raw units.

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "box_mean"

    lower: object
    upper: object

    def fit(self, X: object, y: object = None, user_ids: object = None) -> Self:
        """Fit to X (n, d); y is ignored. Each person of ``user_ids`` (n,) counts once."""
        self.mean_ = self._released(checked_rows(self, X), None, user_ids=user_ids).estimate
        return self
