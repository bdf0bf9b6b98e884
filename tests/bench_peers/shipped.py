"""The peers, in their own environment: ``python shipped.py DATA.npz ANSWERS.json``."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
import opendp.prelude as dp
from diffprivlib import models, tools
from diffprivlib.utils import DiffprivlibCompatibilityWarning
from jax_privacy.batch_selection import CyclicPoissonSampling, pad_to_multiple_of
from measure import judged, measure

TRIALS = 2000
FEW = 200  # of fits that take long
BATCHES, EPOCHS = 10, 5  # of DP-SGD, as ours by default
dp.enable_features("contrib")


def main(source: str, target: str) -> None:
    """Run every peer at every ε, or the trials on two neighbors of an audit."""
    warnings.simplefilter("ignore", DiffprivlibCompatibilityWarning)
    warnings.simplefilter("ignore", RuntimeWarning)  # slopes without bound overflow in its solver
    warnings.simplefilter("ignore", FutureWarning)
    data = dict(np.load(source))
    if "audited" in data:
        answer = {who: [trials(value) for value in (0.0, 1.0)] for who, trials in audited(data).items()}
    else:
        answer = list(measured(data))
    Path(target).write_text(json.dumps(answer))


def measured(data: dict) -> Iterator[dict]:
    """Yield a row for every task, library and ε."""
    costs = (data[name].tolist() for name in ("epsilons", "rhos", "sgd_multipliers"))
    for epsilon, rho, multiplier in zip(*costs, strict=True):
        for task, library, fit in peers(data, epsilon, rho, multiplier):
            found = measure(fit, judged(data, task))
            yield {"task": task, "who": library, "epsilon": epsilon, "ours": False, **found}


def peers(data: dict, epsilon: float, rho: float, multiplier: float) -> list:
    """Return (task, library, fit by seed) with public bounds for everything that asks for them."""
    X, labels, row_bound = data["X"], data["labels"], float(data["row_bound"])
    chosen = []
    if "logistic" in data["tasks"]:

        def logistic(seed: int) -> np.ndarray:
            return diffprivlib_logistic(X, labels, epsilon, row_bound, seed)

        chosen = [("logistic", "diffprivlib", logistic)]
        chosen.append(("logistic", "jax-privacy, DP-SGD", dp_sgd(X, labels, row_bound, multiplier)))
    if "mean" not in data["tasks"]:
        return chosen
    lower, upper, covariates = data["lower"], data["upper"], X[:, :-1]
    released = [
        opendp_column(covariates[:, j], (float(lower[j]), float(upper[j])), rho / len(lower))
        for j in range(len(lower))
    ]

    def mean(seed: int) -> np.ndarray:
        return tools.mean(covariates, epsilon=epsilon, bounds=(lower, upper), axis=0, random_state=seed)

    def linear(seed: int) -> np.ndarray:
        bounds = (float(data["y_lower"]), float(data["y_upper"]))
        model = models.LinearRegression(
            epsilon=epsilon, bounds_X=(lower, upper), bounds_y=bounds, random_state=seed
        ).fit(covariates, data["y"])
        return np.append(model.coef_, model.intercept_)

    chosen += [
        ("mean", "diffprivlib", mean),
        ("mean", "OpenDP", lambda seed: np.array([column() for column in released])),
    ]
    return chosen + [("linear", "diffprivlib", linear)] * ("linear" in data["tasks"])


def opendp_column(column: np.ndarray, bounds: tuple[float, float], rho: float) -> Callable[[], float]:
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(column))
    bounded = (domain, dp.symmetric_distance()) >> dp.t.then_clamp(bounds) >> dp.t.then_mean()
    scale = dp.binary_search_param(lambda s: bounded >> dp.m.then_gaussian(s), d_in=2, d_out=rho)
    mechanism, values = bounded >> dp.m.then_gaussian(scale), column.tolist()
    return lambda: mechanism(values)


def diffprivlib_logistic(
    X: np.ndarray, labels: np.ndarray, epsilon: float, row_bound: float, seed: int | None
) -> np.ndarray:
    model = models.LogisticRegression(
        epsilon=epsilon, data_norm=row_bound, fit_intercept=False, random_state=seed
    )
    return model.fit(X, labels).coef_[0]


def dp_sgd(
    X: np.ndarray, labels: np.ndarray, row_bound: float, multiplier: float
) -> Callable[[int], np.ndarray]:
    """Return DP-SGD made of jax-privacy's clipping, noise and Poisson batches.

    Gradients are clipped to the length that no row of norm ``row_bound`` exceeds; ``multiplier`` is noise
    over that.
    """
    # Rows of zeros, which have no gradient, fill a batch up to a size that is compiled once.
    rows = jnp.asarray(np.vstack([X, np.zeros(X.shape[1])]))
    signs = jnp.asarray(np.append(2 * labels - 1, 0))
    batch_size, step = max(1.0, len(X) / BATCHES), 4 / row_bound**2

    def loss(coef: jax.Array, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.sum(jax.nn.softplus(-batch[1] * (batch[0] @ coef)))

    gradient = jax.jit(
        jax_privacy.clipped_grad(loss, l2_clip_norm=row_bound, normalize_by=batch_size, batch_argnums=1)
    )
    sampling = CyclicPoissonSampling(sampling_prob=1 / BATCHES, iterations=BATCHES * EPOCHS)

    def fit(seed: int) -> np.ndarray:
        stddev = multiplier * row_bound / batch_size
        privatizer = jax_privacy.noise_addition.gaussian_privatizer(stddev=stddev, prng_key=seed)
        coef = jnp.zeros(X.shape[1])
        state = privatizer.init(coef)
        for batch in sampling.batch_iterator(len(X), rng=np.random.default_rng(seed)):
            padded = pad_to_multiple_of(np.append(batch, -1), min(512, len(X)))
            noisy, state = privatizer.update(gradient(coef, (rows[padded], signs[padded])), state)
            coef = coef - step * noisy
        return np.asarray(coef, dtype=float)

    return fit


def audited(data: dict) -> dict[str, Callable[[float], list[float]]]:
    """Return, by library, trials on one of two neighbors (0 or 1): a number from each run at ε = 1."""

    def many(run: Callable[[int], float], n_trials: int = TRIALS) -> list[float]:
        return [float(run(seed)) for seed in range(n_trials)]

    def mean(value: float) -> list[float]:
        rows = np.append(np.zeros(9), value)
        return many(lambda _: tools.mean(rows, epsilon=1.0, bounds=(0.0, 1.0)))

    def opendp_mean(value: float) -> list[float]:
        column = opendp_column(np.append(np.zeros(9), value), (0.0, 1.0), float(data["rho"]))
        return many(lambda _: column())

    def slope(value: float) -> list[float]:
        X = np.zeros((10, 1))
        X[0] = value
        model = models.LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(-1, 1), fit_intercept=False)
        return many(lambda _: np.log10(abs(float(model.fit(X, np.zeros(10)).coef_[0])) + 1e-300), FEW)

    def logistic(value: float) -> list[float]:
        X, labels = np.array([[1.0], [1.0], [-1.0]]), np.array([value, 1.0, 0.0])
        return many(lambda _: diffprivlib_logistic(X, labels, 1.0, 1.0, None)[0])

    def sgd(value: float) -> list[float]:
        fit = dp_sgd(np.ones((1, 1)), np.array([value]), 1.0, float(data["multiplier"]))
        first = 1_000_000 * int(value)
        return many(lambda seed: fit(first + seed)[0], FEW)

    return {
        "diffprivlib, mean": mean,
        "OpenDP, mean": opendp_mean,
        "diffprivlib, LinearRegression": slope,
        "diffprivlib, LogisticRegression": logistic,
        "jax-privacy, DP-SGD": sgd,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
