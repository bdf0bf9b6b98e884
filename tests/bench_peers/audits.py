"""Lower bounds on ε at ε = 1, for our estimators and the peers: what runs on two neighbors prove."""

import numpy as np

from dpalgos.audit.lower_bound import audit_estimator
from dpalgos.audit.rates import epsilon_lower_bound

EPSILON, DELTA = 1.0, 1e-5
TRIALS = 2000
OURS = (
    "box_mean", "clipped_mean", "coinpress_mean", "dp_mean", "preconditioned_regression", "adassp",
    "boosted_adassp", "clipped_gradient_descent", "tukey_em", "objective_perturbation_glm",
    "output_perturbation_glm", "dp_glm", "dp_sgd_glm",
)  # fmt: skip


def of_ours() -> list[dict]:
    found = []
    for name in OURS:
        result = audit_estimator(
            name, epsilon=EPSILON, delta=DELTA, rng=np.random.default_rng(0), n_trials=TRIALS
        )
        proved, most = result.epsilon_lower_bound, _most(TRIALS)
        found.append({"who": name, "ours": True, "proved": proved, "trials": TRIALS, "most": most})
    return found


def of_peers(trials: dict[str, list[list[float]]]) -> list[dict]:
    """Return the lower bounds that trials on two neighbors prove; half of them choose the event."""
    found = []
    for who, numbers in trials.items():
        first, second = (np.array(each) for each in numbers)
        half, delta = len(first) // 2, DELTA if who.startswith(("OpenDP", "jax")) else 0.0
        proved = _bound(first[:half], second[:half], first[half:], second[half:], delta)
        found.append({"who": who, "ours": False, "proved": proved, "trials": half, "most": _most(half)})
    return found


def _bound(
    first: np.ndarray, second: np.ndarray, new_first: np.ndarray, new_second: np.ndarray, delta: float
) -> float:
    """Choose which data set, threshold and side promise most on some trials; prove by others."""
    n, choices = len(first), []
    for swapped, (one, other) in enumerate(((first, second), (second, first))):
        for sign in (1, -1):
            for threshold in np.quantile(sign * np.concatenate([one, other]), np.linspace(0.01, 0.99, 99)):
                counts = [(sign * each > threshold).sum() for each in (one, other)]
                promised = float(epsilon_lower_bound(counts[0], counts[1] + 1, n, delta))
                choices.append((promised, swapped, sign, threshold))
    _, swapped, sign, threshold = max(choices)
    pair = (new_second, new_first) if swapped else (new_first, new_second)
    counts = [int((sign * each > threshold).sum()) for each in pair]
    return float(epsilon_lower_bound(*counts, len(new_first), delta))


def _most(n_trials: int) -> float:
    return float(epsilon_lower_bound(n_trials, 0, n_trials, 0.0))
