"""Private estimators as scikit-learn classes: ``DPLinearRegression(epsilon=1, delta=1e-6).fit(X, y)``.

Each class runs one estimator of the catalog and adds nothing to its privacy argument. ε, δ and bounds have
no default. The shape of X, the labels of a classification and the units of the columns are public: bring
columns into units in which they are of order one by public constants (a scaler fitted to X is not private).
Noise is seeded floating-point noise, for research; ``dpcost release`` draws hardened noise.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpalgos.api import estimate
from dpalgos.catalog import get_estimator
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import NOTE
from dpalgos.summaries import ReleaseSummary
from dpalgos.typing import FloatArray

_OTHERS = ("epsilon", "delta", "random_state", "fit_intercept", "interval")


@dataclass(kw_only=True, eq=False, repr=False)
class _Release(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What all classes share: the call of an estimator, and what was spent on it.

    Attributes
    ----------
    privacy_spent_ : (float, float)
        The ε that the releases prove, and δ; what fits on the same data spend adds up.
    interval_ : (2, d) array or None
        Lower and upper ends at the confidence level ``interval``, of the intercept last; NaN where no honest
        ones exist.
    """

    _estimator: ClassVar[str]
    _settings: ClassVar[dict[str, Any]] = {}

    epsilon: float
    delta: float
    interval: float | None = None
    random_state: object = None

    def _released(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        """Return the estimator's answer and keep what it cost."""
        seed = self.random_state
        if not isinstance(seed, np.random.Generator):
            seed = np.random.default_rng(check_random_state(seed).randint(2**31, size=8))
        public = {name: value for name, value in self.get_params().items() if name not in _OTHERS}
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        if self.interval is not None:
            public["interval"] = self.interval
        result = estimate(self._estimator, X, y, rng=seed, **budget, **self._settings, **public)
        self.privacy_spent_ = (result.certified_epsilon, result.delta)
        self.interval_, self._interval_note = result.interval, str(result.diagnostics.get(NOTE, ""))
        return result.estimate

    def _names(self) -> list[str]:
        given = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if given is None else list(map(str, given))

    def _rows(self) -> list[tuple[str, float]]:
        raise NotImplementedError

    def summary(self) -> ReleaseSummary:
        """Return a table of what was released, what it cost and what was taken as public."""
        check_is_fitted(self)
        epsilon, delta = self.privacy_spent_
        settings = self.get_params().items()
        names, values = zip(*self._rows(), strict=True)
        return ReleaseSummary(
            title=f"{type(self).__name__} ({self._estimator})",
            names=names,
            estimate=np.array(values),
            interval=self.interval_,
            level=self.interval,
            interval_note=self._interval_note,
            epsilon=epsilon,
            delta=delta,
            unit=get_estimator(self._estimator).unit_of_privacy,
            public=(
                "the shape of X",
                "units",
                *(f"{name} = {value}" for name, value in settings if name not in _OTHERS),
            ),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def _html_repr(self) -> str:
        """Show what was released in notebooks, once there is something."""
        if hasattr(self, "privacy_spent_"):
            return self.summary()._repr_html_()
        return str(super()._html_repr())


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearPredictor(_Release):
    """A fit with one coefficient for each column, and an intercept."""

    fit_intercept: bool = True

    def _fit_coef(self, X: FloatArray, y: FloatArray) -> None:
        rows = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        answer = self._released(rows, y)
        self.coef_ = answer[: X.shape[1]]
        self.intercept_ = float(answer[-1]) if self.fit_intercept else 0.0

    def _predictor(self, X: object) -> FloatArray:
        check_is_fitted(self)
        checked = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(checked @ np.ravel(self.coef_) + self.intercept_)

    def _rows(self) -> list[tuple[str, float]]:
        rows = list(zip(self._names(), map(float, np.ravel(self.coef_)), strict=True))
        return [*rows, ("intercept", float(self.intercept_))] if self.fit_intercept else rows


class _PrivateRegressor(RegressorMixin, _LinearPredictor):  # type: ignore[misc]
    def fit(self, X: object, y: object) -> "_PrivateRegressor":
        """Fit to X (n, d) and y (n,)."""
        rows, responses = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self._fit_coef(rows, np.asarray(responses, dtype=np.float64))
        return self

    def predict(self, X: object) -> FloatArray:
        """Return predictions, (n,)."""
        return self._predictor(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise, on tables as small as those of the checks
        return tags


class DPLinearRegression(_PrivateRegressor):
    """Private linear regression; needs no bounds, only units in which columns and response are of order one.

    Parameters
    ----------
    epsilon, delta : float
    fit_intercept : bool, default True
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known.
    random_state : int, Generator or None
    """

    _estimator = "preconditioned_regression"


@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseLinearRegression(_PrivateRegressor):
    """Private linear regression on few of many columns.

    Parameters
    ----------
    epsilon, delta : float
    sparsity : int
        How many coefficients (with the intercept, if one is fitted) are not zero.
    covariate_bound : float
        Entries of X are clipped to plus or minus this.
    response_bound : float
        Responses are clipped to plus or minus this.
    fit_intercept : bool, default False
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known.
    random_state : int, Generator or None
    """

    _estimator = "screened_sparse_regression"

    sparsity: int
    covariate_bound: float
    response_bound: float
    fit_intercept: bool = False


class DPPoissonRegressor(_PrivateRegressor):
    """Private Poisson regression of counts; needs no bounds, only units in which columns are of order one.

    Parameters
    ----------
    epsilon, delta : float
    fit_intercept : bool, default True
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known.
    random_state : int, Generator or None
    """

    _estimator = "preconditioned_glm"
    _settings: ClassVar[dict[str, Any]] = {"family": "poisson"}

    def predict(self, X: object) -> FloatArray:
        """Return expected counts, (n,)."""
        return np.exp(np.minimum(self._predictor(X), 700.0))


class DPLogisticRegression(ClassifierMixin, _LinearPredictor):  # type: ignore[misc]
    """Private logistic regression of two labels; needs no bounds, only units of order one.

    Parameters
    ----------
    epsilon, delta : float
    fit_intercept : bool, default True
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known.
    random_state : int, Generator or None
    """

    _estimator = "preconditioned_glm"
    _settings: ClassVar[dict[str, Any]] = {"family": "logistic"}

    def fit(self, X: object, y: object) -> "DPLogisticRegression":
        """Fit to X (n, d) and two labels y (n,), which are public."""
        rows, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            few = "only one class" if len(self.classes_) == 1 else f"{len(self.classes_)} classes"
            raise InputError(f"Only binary classification is supported: y must hold two labels, got {few}")
        self._fit_coef(rows, codes.astype(np.float64))
        self.coef_ = self.coef_[None, :]
        return self

    def decision_function(self, X: object) -> FloatArray:
        """Return log-odds of the second label, (n,)."""
        return self._predictor(X)

    def predict_proba(self, X: object) -> FloatArray:
        """Return the probabilities of both labels, (n, 2)."""
        chance = expit(self._predictor(X))
        return np.column_stack([1 - chance, chance])

    def predict(self, X: object) -> np.ndarray:
        """Return the likelier labels, (n,)."""
        likelier = (self._predictor(X) > 0).astype(int)
        return np.asarray(self.classes_[likelier])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # noise, on tables as small as those of the checks
        return tags


class _PrivateMean(_Release):
    def fit(self, X: object, y: object = None) -> "_PrivateMean":
        """Fit to X (n, d); y is ignored."""
        self.mean_ = self._released(validate_data(self, X, dtype=np.float64), None)
        return self

    def _rows(self) -> list[tuple[str, float]]:
        return list(zip(self._names(), self.mean_, strict=True))


@dataclass(kw_only=True, eq=False, repr=False)
class DPMean(_PrivateMean):
    """The private mean of each column.

    Parameters
    ----------
    epsilon, delta : float
    value_bound : float
        Entries of X are clipped to plus or minus this.
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known.
    random_state : int, Generator or None

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "dp_mean"

    value_bound: float


@dataclass(kw_only=True, eq=False, repr=False)
class DPBoundedMean(_PrivateMean):
    """The private mean of columns whose range is known, with the least noise for that range.

    Parameters
    ----------
    epsilon, delta : float
    lower, upper : float or (d,) array_like
        Ends of the range of every column, or one of each for all: public.
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε.
    random_state : int, Generator or None

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "box_mean"

    lower: object
    upper: object


@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseMean(_PrivateMean):
    """The private mean of many columns of which few are far from zero.

    Parameters
    ----------
    epsilon, delta : float
    value_bound : float
        Entries of X are clipped to plus or minus this.
    sparsity : int
        How many entries of the answer are not zero.
    interval : float or None
        Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known.
    random_state : int, Generator or None

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "dp_sparse_mean"

    value_bound: float
    sparsity: int
