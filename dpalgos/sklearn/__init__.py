"""Private estimators as scikit-learn classes: ``DPLinearRegression(epsilon=1, delta=1e-6).fit(X, y)``.

Each class runs one estimator of the catalog and adds nothing to its privacy argument. The shape of X, the
labels of a classification and the units of the columns are public (a scaler fitted to X is not private).
Noise is seeded floating-point noise, for research; ``dpcost release`` draws hardened noise.

Parameters
----------
epsilon, delta : float
    The guarantee of one fit; no class has a default.
bounds : (lower, upper) or dict, optional
    Public units of the columns, as in :class:`PublicScaler`; coefficients, means and intervals are in raw
    units. Without bounds columns must be of order one.
y_bounds : (lower, upper), optional
    The same for the response of a linear regression; predictions are clipped to it.
levels : dict of str to sequence, optional
    Public levels of categories, ``{"region": ["north", "south"]}``; the first is the reference.
fit_intercept : bool
    Of regressions and classifications.
classes : sequence, optional
    All labels that there can be, which is public; without it those that occur are published.
interval : float, optional
    Confidence level, e.g. .95: also intervals, paid for from the same ε; refused where none are known. Of
    regressions and of two labels nested models and tests follow from ``model_``, at no cost
    (:class:`dpalgos.answers.model.ReleasedModel`).
random_state : int, Generator or None
budget : dpalgos.Budget, optional
    Counts the fit among other answers.
"""

from dpalgos.sklearn.models import (
    DPBoundedMean,
    DPLinearRegression,
    DPLogisticRegression,
    DPMean,
    DPMultinomialRegression,
    DPPoissonRegressor,
    DPSparseLinearRegression,
    DPSparseMean,
)
from dpalgos.sklearn.units import PublicScaler

__all__ = [
    "DPBoundedMean",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPMean",
    "DPMultinomialRegression",
    "DPPoissonRegressor",
    "DPSparseLinearRegression",
    "DPSparseMean",
    "PublicScaler",
]
