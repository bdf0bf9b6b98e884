"""Local reports: a batch against a loop over people, which is how devices are simulated one by one."""

import time

import numpy as np

from dpalgos.local.randomizers import HalfSpaceRandomizer
from dpalgos.release.noise_source import Noise
from tests.bench.goals import Goal, Measurement, at_most

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
