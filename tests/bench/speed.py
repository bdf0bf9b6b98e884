"""Speed and memory of estimators and mechanisms against plain ways of computing the same."""

import time
from collections.abc import Callable

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import dpalgos
from data.prepare.table_design import draw_rows
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.central.dp_linear_regression import gradient_sensitivity
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from tests.bench.goals import Goal, Measurement

D, T = 6, 50
BOUNDS = {"covariate_bound": 3.0, "response_bound": 2.0, "coef_bound": 1.5}
BUDGET = {"epsilon": 0.5, "delta": 1e-5}
STEP = 0.5


def bench_gradient_descent_replicates(small: bool = False) -> Measurement:
    """Time Algorithm 4.1 on Gram matrices of all replicates against rows, one replicate after another."""
    n, m, n_replicates, repeats = (200, 100, 2, 1) if small else (20_640, 20_000, 100, 5)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((n, D - 1)), np.ones(n)])
    y = X @ rng.standard_normal(D) + rng.standard_normal(n)
    ratios, with_drawing = [], []
    for repeat in range(repeats):
        start = time.process_time()
        mask = draw_rows(n, m, np.random.default_rng(repeat).spawn(n_replicates))
        drawn = time.process_time()
        batch = dpalgos.estimate(
            "dp_linear_regression",
            X,
            y,
            rng=np.random.default_rng(1),
            replicates=n_replicates,
            row_mask=mask,
            n_iterations=T,
            step_size=STEP,
            **BUDGET,
            **BOUNDS,
        ).estimate
        batched = time.process_time()
        loop = [
            _rows_as_printed(X[mask[:, r]], y[mask[:, r]], generator)
            for r, generator in enumerate(np.random.default_rng(1).spawn(n_replicates))
        ]
        looped = time.process_time()
        np.testing.assert_allclose(batch, np.column_stack(loop), rtol=1e-8, atol=1e-10)
        ratios.append((looped - batched) / (batched - drawn))
        with_drawing.append((looped - batched + drawn - start) / (batched - start))
    fast, whole = np.median(ratios), np.median(with_drawing)
    return Measurement(
        figure=f"{fast:.0f}×; {whole:.0f}× with the drawing of the subsamples counted on both sides",
        goals=[
            Goal(what="replicates as an axis, against a loop", values=ratios, wanted=20),
            Goal(what="the same, with the drawing of rows on both sides", values=with_drawing, wanted=8),
        ],
    )


def _rows_as_printed(X: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    bound, response, radius = BOUNDS.values()
    noise, n = Noise([generator]), len(X)
    X = X * np.minimum(1, bound / np.linalg.norm(X, axis=1, keepdims=True))
    y = np.clip(y, -response, response)
    z = np.sqrt(T) * noise_multiplier(**BUDGET)
    coef = np.zeros(X.shape[1])
    for _ in range(T):
        std = z * gradient_sensitivity(np.linalg.norm(coef) * bound, response, bound, n)
        gradient = X.T @ (X @ coef - y) / n + std * noise.normal(len(coef))[:, 0]
        coef = coef - STEP * gradient
        coef *= min(1, radius / max(np.linalg.norm(coef), 1e-300))
    return coef


ROUNDS = 50
FIT = {
    "epsilon": 0.5,
    "family": "logistic",
    "covariate_bound": 1.0,
    "n_iterations": ROUNDS,
    "step_size": 0.5,
}


def bench_private_fit_against_liblinear(small: bool = False) -> Measurement:
    """Time 50 rounds of Algorithm 5 on 50 random halves against scikit-learn's L1 logistic regression."""
    X, y, mask = _wide_rows(small)
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


def _wide_rows(small: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
