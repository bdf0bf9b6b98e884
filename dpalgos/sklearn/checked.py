"""scikit-learn's checks of rows and responses, without messages that quote cells.

The checks get an array of numbers. For such arrays, messages name only shapes, columns and types.

Public units of columns, (X − center) / scale, by constants that were not computed from the data.
Categorical columns with declared levels become indicator columns.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown
from dpalgos.formula.columns import unit_of_bounds
from dpalgos.release.checks import unmasked
from dpalgos.spelling import as_levels, as_spelled, check_labels, check_levels, check_look_different
from dpalgos.typing import FloatArray, IntArray


def level_columns(levels: Mapping[str, Sequence[Any]] | None) -> dict[str, tuple[str, ...]]:
    """Return the names of the indicator columns of each category: all levels except the first."""
    return {name: tuple(f"{name}={level}" for level in each[1:]) for name, each in (levels or {}).items()}


def coded_levels(X: Any, levels: Mapping[str, Sequence[Any]]) -> Any:
    """Return a data frame with indicator columns for all levels except the first, in place of categories."""
    if not hasattr(X, "columns"):
        raise InputError(f"levels by column needs X as a data frame, got {type(X).__name__}; pass a frame")
    if not isinstance(levels, Mapping):
        raise InputError(
            f"levels must be a dictionary, {{'region': ['north', 'south']}}, got {shown(levels)}"
        )
    columns: dict[str, Any] = {}
    for name in levels:
        if name not in X.columns:
            raise InputError(f"levels must be of columns of X, got {name!r}; correct the name")
        check_levels(name, levels[name])
    coded = level_columns(levels)
    names = [*map(str, X.columns), *(column for each in coded.values() for column in each)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"X would have two columns {twice[0]!r} with the levels; rename a column")
    for name in X.columns:
        values = np.asarray(X[name])
        if name not in levels:
            columns[name] = values
            continue
        if (level_of_row := as_levels(values, levels[name])) is None:
            raise InputError(f"column {name!r} must hold its declared levels only; declare all levels")
        columns |= {
            column: (level_of_row == level) * 1.0
            for column, level in zip(coded[name], levels[name][1:], strict=True)
        }
    return frame_of(columns)


class _NoNumbersError(InputError, TypeError):
    """Raised for objects that are no numbers; scikit-learn expects a TypeError."""


def checked_rows(model: Any, X: Any, *, reset: bool = True) -> FloatArray:
    """Return rows X (n, d) as numbers; keep, or compare, the number and names of their columns."""
    rows = _named_rows(model, X, "no_validation", reset=reset)
    return np.asarray(check_array(rows, dtype=np.float64, estimator=model, input_name="X"))


def checked_pair(model: Any, X: Any, y: Any, *, labels: bool = False) -> tuple[FloatArray, np.ndarray]:
    """Return rows X (n, d) and responses y (n,) as numbers; with ``labels``, y is not converted."""
    responses = _as_labels(y) if labels else plain_numbers("y", y)
    rows = _named_rows(model, X, responses, reset=True)
    options = {"dtype": np.float64, "y_numeric": not labels, "ensure_min_samples": 2, "estimator": model}
    rows, responses = check_X_y(rows, responses, **options)
    return rows, responses


def codes_of(labels: np.ndarray, classes: Any) -> tuple[np.ndarray, FloatArray]:
    """Return the sorted labels, and the index of each of ``labels`` among them.

    Declared ``classes`` are public. With None, the labels that occur are published, even a label of one
    person.
    """
    if classes is None:
        check_classification_targets(labels)
        distinct = _quietly("y", np.unique, labels)
        if len(distinct) == 1:
            raise InputError("Classification needs y to hold two labels or more, got only one class")
    else:
        distinct = _quietly("classes", np.unique, classes)
        if np.ndim(classes) != 1 or not 2 <= len(distinct) == len(classes):
            raise InputError(f"classes must be a list of two labels or more, each once, got {shown(classes)}")
        if len({isinstance(each, str) for each in classes}) > 1:  # NumPy would make texts of numbers
            raise InputError(f"classes must be all texts or all numbers, got {shown(classes)}; recode y")
    matches = np.asarray(labels[:, None] == distinct)
    if not matches.any(axis=1).all():
        if labels.dtype.kind in "iu" and all(isinstance(each, str) for each in distinct):
            codes = list(range(len(distinct)))
            raise InputError(
                "classes must be the labels as y has them, got text and y of whole numbers; if a tool such "
                f"as VotingClassifier encodes labels before the fit, declare classes={codes}"
            )
        raise InputError("y must hold the declared classes only, got another label; declare all labels")
    return distinct, matches.argmax(axis=1).astype(np.float64)


def labels_of(y: Any) -> np.ndarray:
    """Return labels as a one-dimensional array, or refuse them without quoting one."""
    labels = _as_labels(y)
    if np.shape(labels) != (np.size(labels),):
        raise InputError(f"y must have shape (n,), got {np.shape(labels)}")
    return np.asarray(labels)


def plain_numbers(name: str, values: Any) -> Any:
    """Return values as finite floating-point numbers; scikit-learn refuses None."""
    if scipy.sparse.issparse(values):
        raise _NoNumbersError(
            f"{name} must be a dense array, got a sparse one; pass {name}.toarray(), with fewer columns if "
            "it does not fit into memory"
        )
    array = _as_array(name, values)
    if array is None:
        return array
    is_text = array.dtype.kind in "SUT" or (
        array.dtype.kind == "O" and any(isinstance(each, str | bytes) for each in array.ravel())
    )
    if is_text:
        raise InputError(f"{name} must hold numbers, got text; convert it to numbers, or declare levels")
    numbers = _quietly(name, lambda cells: cells.astype(np.float64, copy=False), array)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{name} must hold finite numbers, got NaN or infinity in some cells; put a public constant in "
            "place of missing cells, the same whatever the rows are, or leave out the column"
        )
    return numbers


def _as_labels(y: Any) -> Any:
    """Return labels as an array; refuse missing ones, which cannot be compared."""
    labels = _as_array("y", y)
    if isinstance(labels, np.ndarray) and frame_of({"y": labels.ravel()}).isna().any(axis=None):
        raise InputError("y must hold a label in every row, got missing ones: Input y contains NaN")
    return labels


def _named_rows(model: Any, X: Any, y: Any, *, reset: bool) -> Any:
    if reset:
        model.levels_ = deepcopy(getattr(model, "levels", None))  # predictions keep those of the fit
        if isinstance(model.levels_, Mapping) and hasattr(X, "columns"):
            model.levels_ = as_spelled(model.levels_, X.columns)
    if hasattr(X, "columns"):
        check_look_different("columns of X", map(str, X.columns))
    if hasattr(X, "columns") and len(set(map(str, X.columns))) < len(X.columns):
        raise InputError("X must have no two columns of one name; rename one")
    levels = getattr(model, "levels_", None)
    if levels is not None and hasattr(X, "columns"):  # a frame of any library
        X = _quietly("X", lambda X: frame_of({name: np.asarray(X[name]) for name in X.columns}), X)
    rows = plain_numbers("X", X if levels is None else coded_levels(X, levels))
    if isinstance(rows, np.ndarray) and rows.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {rows.ndim}D array instead: X must have shape (n, d), got {rows.shape}. "
            "Reshape your data"
        )
    if rows is not None:
        validate_data(model, X if hasattr(X, "columns") else rows, y, reset=reset, skip_check_array=True)
    return rows


def _as_array(name: str, values: Any) -> Any:
    if values is None or scipy.sparse.issparse(values):
        return values
    array = _quietly(name, np.asarray, unmasked(name, values))
    if array.ndim == 0:
        raise InputError(f"{name} must be an array, got a single {type(values).__name__}")
    if array.dtype.kind in "cMm":
        raise InputError(
            f"{name} must hold real numbers or labels, got {array.dtype}: Complex data not supported"
        )
    return array


def _quietly(name: str, convert: Callable[[Any], Any], values: Any) -> Any:
    """Convert values; if that fails, refuse them without quoting the conversion error or its cause."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return convert(values)
        except Exception as error:  # containers of other libraries raise their own exceptions
            kind = type(error)
    if issubclass(kind, TypeError):  # the message of scikit-learn for objects that are not numbers
        raise _NoNumbersError(
            f"{name} must hold numbers of one kind: each argument must be a string or a number"
        )
    raise InputError(f"{name} must hold numbers of one kind, got other values; convert or drop them")


@dataclass(frozen=True, eq=False)
class Units:
    """Center and scale of d columns, and the bounds to which their entries are clipped, each (d,)."""

    center: FloatArray
    scale: FloatArray
    lower: FloatArray
    upper: FloatArray

    def apply(self, X: FloatArray, *, ones: int = 0) -> FloatArray:
        """Return the columns of X (n, d), clipped to the bounds, in these units, and columns of ones."""
        rows = np.ones((len(X), X.shape[1] + ones))
        columns = rows[:, : X.shape[1]]
        np.clip(X, self.lower, self.upper, out=columns)
        columns -= self.center
        columns /= self.scale
        return rows

    def clip(self, X: FloatArray) -> FloatArray:
        """Return X, clipped to the bounds."""
        return np.clip(X, self.lower, self.upper)

    def clipped_sides(self, X: FloatArray) -> IntArray:
        """Return −1 for entries of X (n, d) clipped at the lower bound, 1 at the upper, otherwise 0."""
        return np.asarray((self.upper < X).astype(np.int8) - (self.lower > X))

    def undo(self, Z: FloatArray) -> FloatArray:
        """Return columns in these units, (n, d), in raw units."""
        return Z * self.scale + self.center


def units_of_bounds(
    d: int,
    bounds: object,
    *,
    name: str = "bounds",
    centered: bool = True,
    columns: Sequence[str] | None = None,
) -> Units:
    """Check the bounds of d columns, and return units in which they are −2 and 2.

    Without bounds, columns do not change. Bounds are for all columns, by position, or a dictionary by the
    names of ``columns``. ``name`` is that of the argument. If not ``centered``, 0 stays 0.
    """
    if bounds is None:
        return Units(np.zeros(d), np.ones(d), np.full(d, -np.inf), np.full(d, np.inf))
    ends = _by_position(name, bounds, columns)
    if isinstance(ends, list) and len(ends) == d and all(np.shape(pair) == (2,) for pair in ends):
        ends = tuple(zip(*ends, strict=True))
    pairs = isinstance(bounds, list)  # a list of two has tuples, a tuple of two has none
    if (
        isinstance(bounds, tuple | list)
        and d == len(bounds) == 2
        and any(np.ndim(each) and isinstance(each, tuple) != pairs for each in bounds)
    ):
        raise InputError(
            f"{name} of two columns must be like ([0, 0], [100, 9]) or [(0, 100), (0, 9)], got "
            + shown(bounds)
        )
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise InputError(f"{name} must be a pair (lower, upper), got {shown(bounds)}; pass e.g. (0, 100)")
    lower, upper = _constants(name, ends[0], d), _constants(name, ends[1], d)
    if not (lower < upper).all():
        raise InputError(f"{name} must have lower < upper in every column, got {shown(bounds)}")
    around = (lower, upper) if centered else (-np.maximum(-lower, upper), np.maximum(-lower, upper))
    center, scale = zip(*map(unit_of_bounds, *around), strict=True)
    return Units(np.array(center), np.array(scale), lower, upper)


def _by_position(name: str, value: object, columns: Sequence[str] | None) -> object:
    """Return a dictionary by column as a list in the order of columns; other values unchanged."""
    if not isinstance(value, Mapping):
        return value
    if columns is None:
        raise InputError(
            f"{name} by column needs X as a data frame whose columns have names of text; pass one"
        )
    value = as_spelled(value, columns)
    missing = [column for column in columns if column not in value]
    unknown = [column for column in value if column not in columns]
    if missing or unknown:
        wrong = f"no {missing[0]!r}" if missing else f"{unknown[0]!r}, which is no column"
        raise InputError(
            f"{name} must name every column of X, got {wrong}; name each of {', '.join(map(repr, columns))}"
        )
    return [value[column] for column in columns]


def _constants(name: str, value: object, d: int) -> FloatArray:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers, got {shown(value)}") from None
    if numbers.shape not in ((), (d,)) or not np.isfinite(numbers).all():
        raise InputError(
            f"{name} must be one finite number, or one for each of {d} columns, got {shown(value)}"
        )
    return np.broadcast_to(numbers, (d,))


@dataclass(kw_only=True, eq=False, repr=False)
class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale columns to public units, at no privacy cost: a `StandardScaler` that learns nothing.

    Parameters
    ----------
    center, scale : float, (d,) array_like or dict, optional
        Public constants, for all columns, by position, or by name (``{"age": 50, …}``); by default 0 and 1.
    bounds : (lower, upper) or dict, optional
        Instead of the two: public bounds of all columns, of each, or by name (``{"age": (18, 90), …}``).
        Entries outside are clipped. The range becomes −2 to 2.

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
        check_labels(self.get_params(), getattr(X, "columns", ()), "the columns of X")
        units = units_of_bounds(d, self.bounds, columns=columns)
        if self.bounds is not None and (self.center is not None or self.scale is not None):
            raise InputError("bounds replace center and scale, got both; leave out one of them")
        for name in ("center", "scale"):
            if (constants := getattr(self, name)) is not None:
                units = replace(units, **{name: _constants(name, _by_position(name, constants, columns), d)})
        if not (units.scale > 0).all():
            raise InputError(f"scale must be positive, got {shown(self.scale)}")
        self._units = units
        return self

    def transform(self, X: object) -> FloatArray:
        """Return X (n, d) in the units."""
        check_is_fitted(self, "_units")
        return self._units.apply(checked_rows(self, X, reset=False))

    def inverse_transform(self, X: object) -> FloatArray:
        """Return columns in these units, (n, d), in raw units; clipped entries stay clipped."""
        check_is_fitted(self, "_units")
        rows = plain_numbers("X", X)
        if np.shape(rows) != (len(rows), len(self._units.center)):
            raise InputError(
                f"X must have shape (n, {len(self._units.center)}), as in fit, got {np.shape(rows)}"
            )
        return self._units.undo(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
