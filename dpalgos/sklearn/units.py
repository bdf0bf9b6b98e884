"""Public units of columns, (X − center) / scale, by constants that were not computed from the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpalgos.declared_units import unit_of_bounds
from dpalgos.errors import InputError
from dpalgos.sklearn.checked import checked_rows, plain_numbers
from dpalgos.typing import FloatArray


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

    def undo(self, Z: FloatArray) -> FloatArray:
        """Return columns in these units, (n, d), as they were."""
        return Z * self.scale + self.center


class GivenUnits(NamedTuple):
    """Public units as a user gives them: a center and a scale, or bounds."""

    center: object
    scale: object
    bounds: object


def stated_units(
    d: int,
    given: GivenUnits,
    *,
    prefix: str = "",
    centered: bool = True,
    columns: Sequence[str] | None = None,
) -> Units:
    """Check units of d columns, given as center and scale or as bounds, which become −2 and 2.

    Each is given for all columns, by position, or by the names of ``columns`` as a dictionary. ``prefix`` is
    that of the arguments' names in messages; where not ``centered``, 0 must stay 0.
    """
    named = f"{prefix}bounds", f"{prefix}center", f"{prefix}scale"
    bounds = _by_position(named[0], given.bounds, columns, "(0, 100)")
    if isinstance(bounds, list) and len(bounds) == d and all(np.shape(pair) == (2,) for pair in bounds):
        bounds = tuple(zip(*bounds, strict=True))
    center = _by_position(named[1], given.center, columns, "50")
    scale = _by_position(named[2], given.scale, columns, "15")
    lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
    if bounds is not None:
        if center is not None or scale is not None:
            raise InputError(
                f"{named[0]} stand for {named[1]} and {named[2]}, got both; leave out one or the other"
            )
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InputError(f"{named[0]} must be a pair (lower, upper), got {bounds!r}; pass e.g. (0, 100)")
        lower, upper = _constants(named[0], bounds[0], d), _constants(named[0], bounds[1], d)
        if not (lower < upper).all():
            raise InputError(f"{named[0]} must have lower < upper in every column, got {bounds!r}")
        ends = (lower, upper) if centered else (-np.maximum(-lower, upper), np.maximum(-lower, upper))
        center, scale = zip(*map(unit_of_bounds, *ends), strict=True)
        return Units(np.array(center), np.array(scale), lower, upper)
    if center is not None and not centered:
        raise InputError(f"{named[1]} needs an intercept, got fit_intercept=False; leave it out")
    middle = _constants(named[1], 0.0 if center is None else center, d)
    unit = _constants(named[2], 1.0 if scale is None else scale, d)
    if not (unit > 0).all():
        raise InputError(f"{named[2]} must be positive, got {scale!r}")
    return Units(middle, unit, lower, upper)


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
        columns = checked_rows(self, X)
        self._units = stated_units(
            columns.shape[1],
            GivenUnits(self.center, self.scale, self.bounds),
            columns=getattr(self, "feature_names_in_", None),
        )
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
