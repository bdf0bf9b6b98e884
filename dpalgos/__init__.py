"""The mathematics of dpcost: private and non-private estimators on arrays.

>>> import numpy as np, dpalgos
>>> rng = np.random.default_rng(0)
>>> X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
>>> dpalgos.estimate("ols", X, y, rng=rng).estimate.shape
(3,)
"""

from dpalgos.accounting.shared_budget import Budget
from dpalgos.api import estimate
from dpalgos.catalog import Estimator, catalog, get_estimator
from dpalgos.errors import AccuracyWarning, InputError, PrivacyWarning, SeededNoiseWarning
from dpalgos.result import Result
from dpalgos.rows.sample import Sample

__version__ = "5.0.0"

__all__ = [
    "AccuracyWarning",
    "Budget",
    "Estimator",
    "InputError",
    "PrivacyWarning",
    "Result",
    "Sample",
    "SeededNoiseWarning",
    "catalog",
    "estimate",
    "get_estimator",
]
