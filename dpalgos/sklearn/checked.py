"""scikit-learn's checks of rows and responses, without messages that quote cells.

The checks get an array of numbers. For such arrays, messages name only shapes, columns and types.
"""

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import scipy
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_X_y, validate_data

from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown
from dpalgos.release.checks import unmasked
from dpalgos.sklearn.levels import coded_levels
from dpalgos.spelling import as_spelled, check_look_different
from dpalgos.typing import FloatArray


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
    """Return values as floating-point numbers; scikit-learn refuses sparse values and None."""
    array = _as_array(name, values)
    if array is None or scipy.sparse.issparse(array):
        return array
    is_text = array.dtype.kind in "SUT" or (
        array.dtype.kind == "O" and any(isinstance(each, str | bytes) for each in array.ravel())
    )
    if is_text:
        raise InputError(f"{name} must hold numbers, got text; convert it to numbers, or declare levels")
    return _quietly(name, lambda cells: cells.astype(np.float64, copy=False), array)


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
