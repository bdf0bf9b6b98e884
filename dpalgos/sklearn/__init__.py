"""Private estimators as scikit-learn classes: ``DPLinearRegression(epsilon=1, delta=1e-6).fit(X, y)``.

Each class runs one estimator of the catalog and adds nothing to its privacy argument. ε, δ and bounds have
no default. The shape of X, the labels of a classification and the units of the columns are public: state
units by ``bounds``, or by ``center`` and ``scale`` (a scaler fitted to X is not private). Noise is seeded
floating-point noise, for research; ``dpcost release`` draws hardened noise.
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
