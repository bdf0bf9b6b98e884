"""The Hadamard mean over users at d = 1,024: seconds, and memory against n d."""

import time
import tracemalloc

import numpy as np

import dpalgos
from tests.bench.goals import Measurement, at_most

D = 1_024
# Large, because 10,000 users at ε = 1 cannot find the ranges of 1,024 coordinates.
EPSILON, DELTA = 8.0, 1e-6
ROWS = 100  # of every user, whose mean is drawn as one row


def bench_hadamard_mean(small: bool = False) -> Measurement:
    """Time 20 replicates that share a rotation, and the largest arrays over that of the users' means."""
    n_users, replicates = (1_000, 2) if small else (10_000, 20)
    seconds, _, errors = _run(n_users, replicates)
    peaks = {n: _run(n, replicates, traced=True)[1] / (8 * n * D) for n in (n_users // 2, n_users)}
    return Measurement(
        figure=f"{seconds:.2f} s of one core for {replicates} replicates of n = {n_users:,}, d = {D:,}; "
        + "memory "
        + " and ".join(f"{peak:.1f} n d numbers at n = {n:,}" for n, peak in peaks.items())
        + f"; ℓ2 error {errors:.4f}, non-private {np.sqrt(D / (n_users * ROWS)):.4f}",
        goals=[
            at_most(5, "s", f"{replicates} Hadamard means over {n_users:,} users", seconds),
        ],
    )


def _run(n_users: int, replicates: int, *, traced: bool = False) -> tuple[float, float, float]:
    """Return seconds, peak bytes in addition to the data, and the ℓ2 error."""
    X = np.random.default_rng(0).normal(0.5, ROWS**-0.5, (n_users, D))
    s = np.log(n_users / 0.01)
    tau = float(np.sqrt((D + 2 * np.sqrt(D * s) + 2 * s) / ROWS))
    settings = {"epsilon": EPSILON, "delta": DELTA, "value_bound": 10.0, "concentration_radius": tau}
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
