"""Speed and memory of estimators and mechanisms against plain ways of computing the same."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import dpalgos
from data.prepare.table_design import draw_rows
from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.central.dp_linear_regression import gradient_sensitivity
from dpalgos.local.randomizers import HalfSpaceRandomizer
from dpalgos.mechanisms.noisy_iht import peeling, printed_multiplier
from dpalgos.mechanisms.top_k import SparseRelease, noisy_top_k
from dpalgos.models.families import get_family
from dpalgos.models.risk import wide_gradient
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from tests.bench.goals import Goal, Measurement, at_most

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


P, BLOCK = 50, 20_000


def bench_half_space_reports(small: bool = False) -> Measurement:
    """Time a million reports of 50 numbers, and people one after the other."""
    n, looped = (BLOCK, 10) if small else (1_000_000, 5_000)
    randomizer = HalfSpaceRandomizer(epsilon=1.0, radius=1.0, size=P)
    vectors = np.random.default_rng(0).standard_normal((BLOCK, P, 1))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    noise, total = Noise([np.random.default_rng(1)]), np.zeros(P)
    start = time.process_time()
    for _ in range(n // BLOCK):
        total += randomizer.perturb(vectors, noise)[:, :, 0].sum(axis=0)
    batch = time.process_time() - start
    start = time.process_time()
    for person in range(looped):
        total += randomizer.perturb(vectors[person : person + 1], noise)[0, :, 0]
    loop = (time.process_time() - start) * n / looped
    return Measurement(
        figure=f"{batch:.2f} s for {n:,} reports of {P} numbers, {loop / batch:.0f}× a loop over people",
        goals=[
            at_most(3, "s", f"{n:,} local reports", batch),
            Goal(what="local reports, against a loop over people", values=[loop / batch], wanted=8),
        ],
    )


SENSITIVITY = 1e-3  # of selection


def bench_top_k_against_peeling(small: bool = False) -> Measurement:
    return _selection(d=2_400, s=50, small=small)


def bench_top_k_against_peeling_wide(small: bool = False) -> Measurement:
    return _selection(d=4_000, s=40, small=small)


def _selection(*, d: int, s: int, small: bool) -> Measurement:
    """Time selection and release of s of d coordinates, and compare the noise at equal (ε, δ)."""
    n_replicates, repeats = (2, 1) if small else (100, 7)
    values = np.random.default_rng(0).standard_normal((d, n_replicates))
    halves = {"selection": 0.5, "values": 0.5}
    budget = SplitBudget(**BUDGET, shares=halves, gaussian=False)
    selection = 2 / budget.selection_epsilon("selection", s)
    release = budget.gaussian_multiplier("values")
    printed = printed_multiplier(**BUDGET, sparsity=s)

    public = {"linf_sensitivity": SENSITIVITY, "sparsity": s}
    noise = {"selection_multiplier": selection, "release_multiplier": release}

    def one_shot(transcript: Transcript) -> SparseRelease:
        return noisy_top_k(transcript, values, **public, **noise, label="one shot")

    def as_printed(transcript: Transcript) -> SparseRelease:
        return peeling(transcript, values, **public, noise_multiplier=printed, label="peeling")

    seconds: dict = {one_shot: [], as_printed: []}
    for repeat in range(repeats):
        for mechanism, times in seconds.items():
            transcript = Transcript(Noise(np.random.default_rng(repeat).spawn(n_replicates)))
            start = time.process_time()
            mechanism(transcript)
            times.append((time.process_time() - start) / n_replicates)
    fast, slow = (float(np.median(times)) for times in seconds.values())
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    # Standard deviations: Gumbel (π/√6) g and Laplace √2 b for the choice, Gaussian and √2 b for the values.
    choice = np.sqrt(2) * printed / (selection * np.pi / np.sqrt(6))
    values_ratio = np.sqrt(2) * printed / (release * np.sqrt(s))
    return Measurement(
        figure=f"{np.median(ratios):.0f}× per replicate ({1e6 * fast:.0f} against {1e6 * slow:.0f} µs); "
        f"printed noise {printed / selection:.2f}× the scale "
        f"(standard deviation {choice:.2f}× in the choice, {values_ratio:.2f}× in the values)",
        goals=[Goal(what=f"Gumbel top-k against peeling, s = {s} of d = {d:,}", values=ratios, wanted=50)],
    )


WIDTH = 1_024
USER_ROWS = 100  # of every user, whose mean is drawn as one row


def bench_hadamard_mean(small: bool = False) -> Measurement:
    """Time 20 replicates that share a rotation, and the largest arrays over that of the users' means."""
    n_users, replicates = (1_000, 2) if small else (10_000, 20)
    seconds, _, errors = _hadamard_means(n_users, replicates)
    peaks = {
        n: _hadamard_means(n, replicates, traced=True)[1] / (8 * n * WIDTH) for n in (n_users // 2, n_users)
    }
    return Measurement(
        figure=f"{seconds:.2f} s of one core for {replicates} replicates of n = {n_users:,}, d = {WIDTH:,}; "
        + "memory "
        + " and ".join(f"{peak:.1f} n d numbers at n = {n:,}" for n, peak in peaks.items())
        + f"; ℓ2 error {errors:.4f}, non-private {np.sqrt(WIDTH / (n_users * USER_ROWS)):.4f}",
        goals=[
            at_most(5, "s", f"{replicates} Hadamard means over {n_users:,} users", seconds),
        ],
    )


def _hadamard_means(n_users: int, replicates: int, *, traced: bool = False) -> tuple[float, float, float]:
    """Return seconds, peak bytes in addition to the data, and the ℓ2 error."""
    X = np.random.default_rng(0).normal(0.5, USER_ROWS**-0.5, (n_users, WIDTH))
    s = np.log(n_users / 0.01)
    tau = float(np.sqrt((WIDTH + 2 * np.sqrt(WIDTH * s) + 2 * s) / USER_ROWS))
    settings = {"epsilon": 8.0, "delta": 1e-6, "value_bound": 10.0, "concentration_radius": tau}
    # ε is large, because 10,000 users at ε = 1 cannot find the ranges of 1,024 coordinates.
    settings["range_failure"] = 1.0  # half as many users, to compare memory
    sample = dpalgos.Sample(X, user_ids=np.arange(n_users), n_replicates=replicates)
    if traced:
        tracemalloc.start()
    start = time.process_time()  # of one core, whatever else runs
    answer = dpalgos.estimate(
        "user_level_mean", sample, rng=np.random.default_rng(1), replicates=replicates, **settings
    ).estimate
    seconds = time.process_time() - start
    peak = 0.0
    if traced:
        peak = float(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return seconds, peak, float(np.linalg.norm(answer - 0.5, axis=0).mean())


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
    X, y, mask = _wide_rows(small)
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
