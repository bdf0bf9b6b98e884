"""Wide designs: a gradient step for many replicates at once, and private fits against scikit-learn."""

import time
from collections.abc import Callable

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import dpalgos
from dpalgos.models.families import get_family
from dpalgos.models.risk import wide_gradient
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from tests.bench.goals import Goal, Measurement

ROUNDS = 50
FIT = {
    "epsilon": 0.5,
    "family": "logistic",
    "covariate_bound": 1.0,
    "n_iterations": ROUNDS,
    "step_size": 0.5,
}


def bench_wide_gradient_step(small: bool = False) -> Measurement:
    """Time a logistic gradient of 100 replicates, each on its half of the rows, in single precision.

    Against the machine's own matrix products of the same shapes; against one replicate after another as one
    would write it, two matrix-vector products over the same rows; and against this engine for one replicate
    whose rows, half as many, were taken out beforehand.
    """
    X, y, mask = _data(small)
    (n, d), n_replicates = X.shape, mask.shape[1]
    family, rng = get_family("logistic"), np.random.default_rng(1)
    coef = (rng.standard_normal((d, n_replicates)) / np.sqrt(d)).astype(np.float32)
    factors, labels = rng.random((n, n_replicates), dtype=np.float32), y.astype(np.float32)
    sample, alone = (
        Sample(X, y, row_mask=mask, n_replicates=n_replicates),
        Sample(X[mask[:, 0]], y[mask[:, 0]]),
    )
    gradient = wide_gradient(sample, Design(sample, single=True), family)
    gradient_alone = wide_gradient(alone, Design(alone, single=True), family)

    def plainly() -> np.ndarray:
        return X.T @ ((expit(X @ coef[:, 0]) - labels) * mask[:, 0]) / mask[:, 0].sum()

    calls = {
        "products": lambda: (X @ coef, factors.T @ X),
        "batch": lambda: gradient(coef),
        "plain": plainly,
        "alone": lambda: gradient_alone(coef[:, :1]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(1 if small else 9):
        for name, call in calls.items():
            seconds[name].append(_seconds(call))
    np.testing.assert_allclose(gradient(coef)[:, 0], plainly(), atol=1e-6)
    np.testing.assert_allclose(gradient(coef)[:, :1], gradient_alone(coef[:, :1]), atol=1e-6)
    products, batch, plain, one = (np.array(times) for times in seconds.values())
    rate, gain, least = (
        float(np.median(ratio))
        for ratio in (products / batch, n_replicates * plain / batch, n_replicates * one / batch)
    )
    return Measurement(
        figure=f"{100 * rate:.0f} % of the rate of bare matrix products; {gain:.1f}× one replicate after "
        f"another ({least:.1f}× the engine itself on half as many rows, taken out beforehand)",
        goals=[
            Goal(
                what="a gradient step, of the rate of bare products",
                values=list(100 * products / batch),
                wanted=70,
                unit="%",
            ),
            Goal(
                what="a gradient step, against one replicate after another",
                values=list(n_replicates * plain / batch),
                wanted=6,
            ),
        ],
        details={"milliseconds": {name: 1000 * float(np.median(t)) for name, t in seconds.items()}},
    )


def bench_private_fit_against_liblinear(small: bool = False) -> Measurement:
    """Time 50 rounds of Algorithm 5 on 50 random halves against scikit-learn's L1 logistic regression."""
    X, y, mask = _data(small)
    fits, sparsity = (1, 2) if small else (50, 50)
    sample = Sample(X, y, row_mask=mask[:, :fits], n_replicates=fits)
    settings = {**FIT, "delta": 1 / len(X), "sparsity": sparsity, "rng": np.random.default_rng(0)}
    ours = _seconds(lambda: dpalgos.estimate("dp_sparse_glm", sample, replicates=fits, **settings)) / fits
    figure = f"{1000 * ours:.0f} ms per private fit of {ROUNDS} rounds, {fits} together"
    half = mask[:, 0]
    model = LogisticRegression(l1_ratio=1, solver="liblinear", fit_intercept=False)
    theirs = _seconds(lambda: model.fit(X[half].astype(float), y[half]))
    return Measurement(
        figure=f"{theirs / ours:.0f}× per replicate; {figure}, {theirs:.1f} s for liblinear",
        goals=[Goal(what="a private fit, against liblinear", values=[theirs / ours], wanted=10)],
    )


def _data(small: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels and a random half of the rows for every replicate."""
    n, d, n_replicates = (400, 20, 2) if small else (24_016, 2_401, 100)
    rng = np.random.default_rng(0)
    X = rng.random((n, d), dtype=np.float32)
    X *= 2
    X -= 1
    y = (rng.random(n) < expit(3 * X[:, :10].sum(axis=1))).astype(float)
    mask = np.zeros((n, n_replicates), dtype=bool)
    for r in range(n_replicates):
        mask[rng.permutation(n)[: n // 2], r] = True
    return X, y, mask


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
