"""Public units of columns, (X − center) / scale, by constants that were not computed from the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpalgos.declared_units import unit_of_bounds
from dpalgos.errors import InputError
from dpalgos.sklearn.checked import checked_rows, plain_numbers
from dpalgos.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Units:
    """Center and scale of d columns, and the bounds that their entries are clipped to, each (d,)."""

    center: FloatArray
    scale: FloatArray
    lower: FloatArray
    upper: FloatArray

    def apply(self, X: FloatArray) -> FloatArray:
        """Return the columns of X (n, d), clipped to the bounds, in these units."""
        return (self.clip(X) - self.center) / self.scale

    def clip(self, X: FloatArray) -> FloatArray:
        """Return X, clipped to the bounds."""
        return np.clip(X, self.lower, self.upper)

    def moved(self, X: FloatArray) -> IntArray:
        """Return which entries of X (n, d) are clipped, −1 or 1 by the bound, else 0."""
        return np.asarray((self.upper < X).astype(np.int8) - (self.lower > X))

    def undo(self, Z: FloatArray) -> FloatArray:
        """Return columns in these units, (n, d), as they were."""
        return Z * self.scale + self.center


def units_of_bounds(
    d: int,
    bounds: object,
    *,
    name: str = "bounds",
    centered: bool = True,
    columns: Sequence[str] | None = None,
) -> Units:
    """Check bounds of d columns, which become −2 and 2; without any, columns stay as they are.

    They are given for all columns, by position, or by the names of ``columns`` as a dictionary. ``name`` is
    the argument's; where not ``centered``, 0 must stay 0.
    """
    if bounds is None:
        return Units(np.zeros(d), np.ones(d), np.full(d, -np.inf), np.full(d, np.inf))
    ends = _by_position(name, bounds, columns, "(0, 100)")
    if isinstance(ends, list) and len(ends) == d and all(np.shape(pair) == (2,) for pair in ends):
        ends = tuple(zip(*ends, strict=True))
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise InputError(f"{name} must be a pair (lower, upper), got {bounds!r}; pass e.g. (0, 100)")
    lower, upper = _constants(name, ends[0], d), _constants(name, ends[1], d)
    if not (lower < upper).all():
        raise InputError(f"{name} must have lower < upper in every column, got {bounds!r}")
    around = (lower, upper) if centered else (-np.maximum(-lower, upper), np.maximum(-lower, upper))
    center, scale = zip(*map(unit_of_bounds, *around), strict=True)
    return Units(np.array(center), np.array(scale), lower, upper)


def _by_position(name: str, given: object, columns: Sequence[str] | None, example: str) -> object:
    """Return what a dictionary states of each column as a list in their order; anything else as it is."""
    if not isinstance(given, Mapping):
        return given
    if columns is None:
        raise InputError(f"{name} by column needs X as a data frame with names, got an array; pass a frame")
    missing = [column for column in columns if column not in given]
    unknown = [column for column in given if column not in columns]
    if missing or unknown:
        wrong = f"no {missing[0]!r}" if missing else f"{unknown[0]!r}, which is no column"
        raise InputError(
            f"{name} must name every column of X, got {wrong}; pass e.g. {{{columns[0]!r}: {example}, …}} "
            f"for {', '.join(map(repr, columns))}"
        )
    return [given[column] for column in columns]


def _constants(name: str, given: object, d: int) -> FloatArray:
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers, got {given!r}") from None
    if numbers.shape not in ((), (d,)) or not np.isfinite(numbers).all():
        raise InputError(f"{name} must be one finite number, or one for each of {d} columns, got {given!r}")
    return np.broadcast_to(numbers, (d,))


@dataclass(kw_only=True, eq=False, repr=False)
class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bring columns into public units, which costs no privacy: a `StandardScaler` that learns nothing.

    Parameters
    ----------
    center, scale : float, (d,) array_like or dict, optional
        Public constants, for all columns, by position, or by name (``{"age": 50, …}``); 0 and 1 if left out.
    bounds : (lower, upper) or dict, optional
        In place of the two: public ends of each column's range, one for all, one for each, or by name
        (``{"age": (18, 90), …}``). Entries beyond are clipped; the range becomes −2 to 2.

    Examples
    --------
    >>> PublicScaler(bounds=([0, 0], [100, 1e5])).fit_transform([[50.0, 2e5]])
    array([[0., 2.]])
    """

    center: object = None
    scale: object = None
    bounds: object = None

    def fit(self, X: object, y: object = None) -> "PublicScaler":
        """Check the constants against the number of columns; y is ignored."""
        d, columns = checked_rows(self, X).shape[1], getattr(self, "feature_names_in_", None)
        units = units_of_bounds(d, self.bounds, columns=columns)
        if self.bounds is not None and (self.center is not None or self.scale is not None):
            raise InputError("bounds stand for center and scale, got both; leave out one or the other")
        for name, example in (("center", "50"), ("scale", "15")):
            if (given := getattr(self, name)) is not None:
                numbers = _constants(name, _by_position(name, given, columns, example), d)
                units = replace(units, **{name: numbers})
        if not (units.scale > 0).all():
            raise InputError(f"scale must be positive, got {self.scale!r}")
        self._units = units
        return self

    def transform(self, X: object) -> FloatArray:
        """Return X (n, d) in the units."""
        check_is_fitted(self, "_units")
        return self._units.apply(checked_rows(self, X, reset=False))

    def inverse_transform(self, X: object) -> FloatArray:
        """Return columns in the units, (n, d), as they were but for clipping."""
        check_is_fitted(self, "_units")
        return self._units.undo(plain_numbers("X", X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
