"""Private estimators as scikit-learn classes: ``DPLinearRegression(epsilon=1, delta=1e-6).fit(X, y)``.

Each class runs one estimator of the catalog, which proves the guarantee. The shape of X, the labels of a
classification and the units of the columns are public. A scaler that is fitted to X is not private. Noise is
seeded floating-point noise, for research. ``dpcost release`` draws floating-point-safe noise.

Parameters
----------
epsilon, delta : float
    The guarantee of one fit; no class has a default.
bounds : (lower, upper) or dict, optional
    Public bounds of the columns, as in :class:`PublicScaler`. Coefficients, means and intervals are in raw
    units. Without bounds, columns must be of order one.
y_bounds : (lower, upper), optional
    Public bounds of the response of a linear regression; predictions are clipped to them.
levels : dict of str to sequence, optional
    Public levels of categorical columns, ``{"region": ["north", "south"]}``; the first is the reference.
fit_intercept : bool
    Whether a regression or classification has an intercept.
classes : sequence, optional
    All possible labels, which are public. Without it, the labels that occur are published.
interval : float, optional
    Confidence level of intervals, e.g. 0.95; they share the same ε. Estimators without intervals refuse it.
    For regressions and two labels, ``model_`` then gives nested models and tests at no cost
    (:class:`dpalgos.answers.model.ReleasedModel`).
person_weight, max_rows, max_weight : optional
    If ``fit`` gets the person of every row as ``user_ids``, a regression protects people with all their rows,
    and each person counts once. With ``person_weight="rows"`` each row counts once, up to ``max_rows`` a
    person. ``max_weight`` is the public maximum of ``sample_weight``.
random_state : int, Generator or None
budget : dpalgos.Budget, optional
    The budget that counts this fit with others.
"""

from dpalgos.sklearn.checked import PublicScaler
from dpalgos.sklearn.means import DPBoundedMean, DPMean
from dpalgos.sklearn.regressions import (
    DPLinearRegression,
    DPLogisticRegression,
    DPMultinomialRegression,
    DPPoissonRegressor,
    DPSparseLinearRegression,
    DPSparseMean,
)

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
