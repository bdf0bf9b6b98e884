"""How each private estimator of a study splits its budget, found by running it on made-up numbers.

The split follows from the parameters alone, never from data.
"""

import numpy as np

import dpalgos
from dpalgos.accounting.composition import budget_shares
from tasks.spec import StudySpec, delta_at


def budget_split(spec: StudySpec) -> dict[str, dict[str, float]]:
    """Return label → share for each "estimator|form", at the headline setting and tight if there is such."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, len(spec.covariates) + 1)), rng.uniform(-1, 1, 50)
    head, split = spec.headline, {}
    delta = delta_at(head.delta, head.n)
    for estimator in spec.estimators:
        if estimator.calibrations:
            calibration = "tight" if "tight" in estimator.calibrations else estimator.calibrations[0]
            result = dpalgos.estimate(
                estimator.name,
                X,
                y,
                rng=rng,
                epsilon=head.epsilon,
                delta=delta,
                calibration=calibration,
                **estimator.params,
            )
            split[f"{estimator.name}|{estimator.form}"] = budget_shares(result.events, delta)
    return split
