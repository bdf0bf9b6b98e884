"""Small estimators, sound and faulty, of the mechanisms that regression does not use."""

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.audit.lower_bound import audit
from dpalgos.catalog import Estimator
from dpalgos.params import PrivateParams


def audit_toy(function, neighbors, *, epsilon=2.0, delta=1e-4, n_trials=10_000, seed=0, **options):
    """Audit ``function(sample, params, transcript)`` on one pair of neighbors (X, X') and the far pairs."""
    X, other_X = (np.asarray(rows, dtype=float) for rows in neighbors)
    zero = np.zeros(len(X))
    about = dict.fromkeys(("title", "reference", "summary"), "")
    about |= {"name": "toy", "task": "mean", "relation": Relation.CENTRAL, "calibrations": ("tight",)}
    about |= {"witnesses": lambda params, d, published: {"toy": (X, zero, other_X, zero)}, "example": {}}
    estimator = Estimator(**about, parameters=PrivateParams, function=function, order=0)
    params = PrivateParams(epsilon=epsilon, delta=delta)
    rng = np.random.default_rng(seed)
    return audit(estimator, params, n_trials=n_trials, n_features=X.shape[1], rng=rng, **options)


def column_sums(sample, bound=0.5):
    """Column sums of entries truncated to ±bound, (d, R): they move by at most 2 · bound."""
    sums = np.clip(sample.X, -bound, bound).sum(axis=0)[:, None]
    return np.repeat(sums, sample.n_replicates, axis=1)
