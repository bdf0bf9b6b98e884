"""The scikit-learn classes for regressions and classifications, dense and sparse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dpalgos.answers.model import ReleasedModel
from dpalgos.core.persons import EQUAL
from dpalgos.errors import InputError, PrivacyWarning, shown, warn
from dpalgos.sklearn.base import UnitModel
from dpalgos.sklearn.checked import (
    Units,
    checked_pair,
    checked_rows,
    codes_of,
    labels_of,
    level_columns,
    plain_numbers,
    units_of_bounds,
)
from dpalgos.sklearn.means import DPMean
from dpalgos.spelling import check_same_order
from dpalgos.typing import FloatArray, IntArray

_KNOWS_INTERCEPT = ("preconditioned_regression", "preconditioned_glm")


class _NoModelError(InputError, AttributeError):
    """Raised by ``model_`` after a fit without intervals; ``hasattr`` is then false."""


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearPredictor(UnitModel):
    """A fit with an intercept and one coefficient per column, or per column and class."""

    # For scikit-learn's metadata routing: `fit` has no parameter of this name, see `_weights`.
    __metadata_request__fit: ClassVar = {"sample_weight": None}

    fit_intercept: bool = True
    person_weight: str = EQUAL
    max_rows: int | None = None
    max_weight: float | None = None

    def _fit_coef(
        self, X: FloatArray, y: FloatArray, response: Units | None = None, **settings: object
    ) -> None:
        """Fit in public units; keep coefficients, (d,) or (d, K), and intervals in raw units."""
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept must be True or False, got {shown(self.fit_intercept)}")
        if self.fit_intercept and "intercept" in (*self._names(), *(self.levels_ or ())):
            raise InputError(
                "X must have no column 'intercept' with fit_intercept=True, got one; rename it or take it out"
            )
        units = self._units_of(X, centered=self.fit_intercept)
        rows = units.apply(X, ones=int(self.fit_intercept))
        rows.flags.writeable = False  # nobody else has them: no copy is needed

        def moved() -> IntArray:
            constant = np.zeros((len(X), int(self.fit_intercept)), dtype=np.int8)
            of_y = [] if response is None else [response.clipped_sides(y[:, None])]
            return np.column_stack([units.clipped_sides(X), constant, *of_y])

        declared = y if response is None else response.apply(y[:, None])[:, 0]
        if self.fit_intercept and self._estimator in _KNOWS_INTERCEPT:
            settings["intercept"] = True
        if self._family:
            settings["family"] = self._family
        unit, center = (response.scale[0], response.center[0]) if response else (1.0, 0.0)
        self._back = np.diag(np.append(unit / units.scale, unit)[: rows.shape[1]])
        if self.fit_intercept:
            self._back[-1, :-1] = -unit * units.center / units.scale
        result = self._released(rows, declared, moved, back=self._back, **settings)
        coef = result.estimate  # in public units, the intercept last
        self._response = response

        self._coef = np.asarray((unit * coef[: X.shape[1]].T / units.scale).T)
        at_centers = (self._coef.T * units.center).T.sum(axis=0)
        self._intercept = unit * coef[-1] + center - at_centers if self.fit_intercept else 0.0
        self._shift = center * (np.arange(len(self._back)) == X.shape[1])
        if self.interval_ is not None:
            limits = result.along(self._back)[1]
            assert limits is not None
            self.interval_ = limits + self._shift

    def _weights(self, sample_weight: object = None) -> Any:
        """Return the weights of rows (n,), or None; refuse them without their public maximum.

        `fit` has no parameter of this name: meta-estimators would pass weights in place of drawn rows.
        """
        if sample_weight is not None and self.max_weight is None:
            raise InputError("sample_weight needs max_weight, the public maximum of weights, got none")
        return None if sample_weight is None else plain_numbers("sample_weight", sample_weight)

    @property
    def model_(self) -> ReleasedModel:
        """The releases of a fit with intervals: nested models, tests and means follow at no cost in ε.

        Its terms are those of :meth:`table`. The name of a category means all of its levels. Without an
        interval there is no such attribute.
        """
        check_is_fitted(self)
        if not self._result.has_model:
            raise _NoModelError(
                f"{type(self).__name__} has model_ only after a fit with intervals; pass interval=0.95 to a "
                "regression, or to a classification of two labels"
            )
        terms, categories = [name for name, _ in self._rows()], level_columns(self.levels_)
        coded = {column for columns in categories.values() for column in columns}

        return self._result.released_model(
            terms,
            matrix=self._back,
            shift=self._shift,
            by_term={**{term: (term,) for term in terms if term not in coded}, **categories},
            intercept="intercept" if self._fitted["fit_intercept"] else "",
            rows_of=self._rows_of,
        )

    def _predictor(self, X: object) -> FloatArray:
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False)
        return np.asarray(rows @ self._coef + self._intercept)

    def _rows(self) -> list[tuple[str, float]]:
        rows = list(zip(self._names(), map(float, self._coef), strict=True))
        return [*rows, ("intercept", float(self._intercept))] if self._fitted["fit_intercept"] else rows

    def _rows_of(self, X: object) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the terms at rows X, (n, k), and the offset, 0."""
        rows = checked_rows(self, X, reset=False)
        return np.column_stack([rows, np.ones(len(rows))][: 1 + self._fitted["fit_intercept"]]), np.zeros(1)


@dataclass(kw_only=True, eq=False, repr=False)
class _PrivateRegressor(RegressorMixin, _LinearPredictor):  # type: ignore[misc]
    def fit(self, X: object, y: object, user_ids: object = None, **weights: object) -> Self:
        """Fit to X (n, d) and responses y (n,); raise `InputError` for what is wrong, before any release.

        ``user_ids`` (n,), the person of every row, protects people with all their rows. ``sample_weight``
        (n,), private weights, needs ``max_weight``.
        """
        rows, column = checked_pair(self, X, y)
        response = None
        if hasattr(self, "y_bounds"):
            response = units_of_bounds(1, self.y_bounds, name="y_bounds", centered=self.fit_intercept)
        self._fit_coef(rows, column, response, user_ids=user_ids, weights=self._weights(**weights))
        self.coef_, self.intercept_ = self._coef, float(self._intercept)
        return self

    def predict(self, X: object) -> FloatArray:
        """Return predicted responses, (n,), clipped to ``y_bounds`` if declared."""
        predicted = self._predictor(X)
        return predicted if self._response is None else self._response.clip(predicted[:, None])[:, 0]

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return R² of the predictions for these rows, which is not private."""
        check_same_order(X=X, y=y, sample_weight=sample_weight)
        weights = plain_numbers("sample_weight", sample_weight)
        return float(super().score(X, plain_numbers("y", y), weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise, on tables as small as those of the checks
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class DPLinearRegression(_PrivateRegressor):
    """Private linear regression; columns and response are of order one in their public units.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Attributes
    ----------
    coef_ : (d,) array
    intercept_ : float
    """

    _estimator = "preconditioned_regression"

    y_bounds: object = None


@dataclass(kw_only=True, eq=False, repr=False)
class DPPoissonRegressor(_PrivateRegressor):
    """Private Poisson regression of counts; it finds its clipping thresholds privately.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Columns must be of order one in their public units.

    Parameters
    ----------
    count_bound : float, optional
        The public maximum of counts; by default found privately.

    Attributes
    ----------
    coef_ : (d,) array
    intercept_ : float
    """

    _estimator = "preconditioned_glm"
    _family = "poisson"

    count_bound: float | None = None

    def predict(self, X: object) -> FloatArray:
        """Return expected counts, (n,)."""
        return np.exp(np.minimum(self._predictor(X), 700.0))


@dataclass(kw_only=True, eq=False, repr=False)
class _PrivateClassifier(ClassifierMixin, _LinearPredictor):  # type: ignore[misc]
    classes: Sequence[Any] | None = None

    def _codes(self, X: object, y: object) -> tuple[FloatArray, FloatArray]:
        """Return checked rows and the labels as 0 … K − 1."""
        rows, labels = checked_pair(self, X, y, labels=True)
        self.classes_, codes = codes_of(labels, self.classes)
        if self.classes is None:
            warn(
                "the labels that occur in y are published, even a label of one person; pass "
                "classes= with all labels there can be",
                PrivacyWarning,
            )
        return rows, codes

    def _predictors(self, X: object) -> FloatArray:
        """Return the linear predictor of each label, (n, K)."""
        predictor = self._predictor(X)
        return predictor if predictor.ndim == 2 else np.column_stack([np.zeros(len(predictor)), predictor])

    def decision_function(self, X: object) -> FloatArray:
        """Return the linear predictors, (n, K), or with two labels the log-odds of the second, (n,)."""
        predictors = self._predictors(X)
        return predictors[:, 1] - predictors[:, 0] if len(self.classes_) == 2 else predictors

    def predict_proba(self, X: object) -> FloatArray:
        """Return the probability of each label, (n, K)."""
        return np.asarray(scipy.special.softmax(self._predictors(X), axis=1))

    def predict_log_proba(self, X: object) -> FloatArray:
        """Return the logarithms of the probabilities of each label, (n, K)."""
        return np.asarray(scipy.special.log_softmax(self._predictors(X), axis=1))

    def predict(self, X: object) -> np.ndarray:
        """Return the most probable labels, (n,)."""
        likeliest = self._predictors(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the share of rows with the right label, which is not private."""
        check_same_order(X=X, y=y, sample_weight=sample_weight)
        labels, weights = labels_of(y), plain_numbers("sample_weight", sample_weight)
        predicted = self.predict(X)
        if len(labels) != len(predicted):
            raise InputError(
                f"y must have one label per row of X, got {len(labels)} for {len(predicted)} rows"
            )
        if weights is not None and not (np.shape(weights) == labels.shape and weights.sum() > 0):
            raise InputError("sample_weight must have one entry per row of X, with a positive sum")
        return float(np.average(labels == predicted, weights=weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # noise, on tables as small as those of the checks
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class DPLogisticRegression(_PrivateClassifier):
    """Private logistic regression of two labels; it finds its clipping thresholds privately.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Columns must be of order one in their public units.

    Attributes
    ----------
    classes_ : (2,) array
    coef_ : (1, d) array
        Coefficients of the log-odds of the second label.
    intercept_ : (1,) array
    """

    _estimator = "preconditioned_glm"
    _family = "logistic"

    def fit(self, X: object, y: object, user_ids: object = None, **weights: object) -> Self:
        """Fit to X (n, d) and two labels y (n,); the rest is as in :class:`DPLinearRegression`."""
        rows, codes = self._codes(X, y)
        if len(self.classes_) != 2:
            raise InputError(
                f"Only binary classification is supported: y must hold two labels, got {len(self.classes_)} "
                "classes; take DPMultinomialRegression"
            )
        self._fit_coef(rows, codes, user_ids=user_ids, weights=self._weights(**weights))
        self.coef_, self.intercept_ = self._coef[None, :], np.array([float(self._intercept)])
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class DPMultinomialRegression(_PrivateClassifier):
    """Private logistic regression of several labels (softmax); it has no intervals.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Attributes
    ----------
    classes_ : (K,) array
    coef_ : (K, d) array
    intercept_ : (K,) array
    """

    _estimator = "preconditioned_glm"

    def fit(self, X: object, y: object, user_ids: object = None, **weights: object) -> Self:
        """Fit to X (n, d) and labels y (n,); the rest is as in :class:`DPLinearRegression`."""
        rows, codes = self._codes(X, y)
        units = {"user_ids": user_ids, "weights": self._weights(**weights)}
        self._fit_coef(rows, codes, family="multinomial", n_classes=len(self.classes_), **units)
        self.coef_ = self._coef.T
        self.intercept_ = np.broadcast_to(self._intercept, (len(self.classes_),)).astype(float)
        return self

    def _rows(self) -> list[tuple[str, float]]:
        names, coef = self._names(), self.coef_
        if self._fitted["fit_intercept"]:
            names, coef = [*names, "intercept"], np.column_stack([coef, self.intercept_])
        return [
            (f"{label}: {name}", float(value))
            for label, row in zip(self.classes_, coef, strict=True)
            for name, value in zip(names, row, strict=True)
        ]


@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseLinearRegression(DPLinearRegression):
    """Private linear regression with few non-zero coefficients among many columns.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Parameters
    ----------
    sparsity : int
        The number of non-zero coefficients, including the intercept if one is fitted.
    covariate_bound : float
        Entries of X, in public units, are clipped to plus or minus this bound.
    response_bound : float
        Responses, in public units, are clipped to plus or minus this bound.
    fit_intercept : bool, default False

    Attributes
    ----------
    coef_ : (d,) array
    intercept_ : float
    """

    _estimator = "screened_sparse_regression"

    sparsity: int
    covariate_bound: float
    response_bound: float
    fit_intercept: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseMean(DPMean):
    """The private mean of many columns, of which few have a mean far from zero.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Parameters
    ----------
    value_bound : float
        Entries of X, in public units, are clipped to plus or minus this bound.
    sparsity : int
        The number of non-zero entries of the mean, in public units.

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "dp_sparse_mean"

    sparsity: int
