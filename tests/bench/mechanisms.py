"""Selection of the largest coordinates: one Gumbel vector against peeling as printed."""

import time

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.mechanisms.noisy_iht import peeling, printed_multiplier
from dpalgos.mechanisms.top_k import SparseRelease, noisy_top_k
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from tests.bench.goals import Goal, Measurement

EPSILON, DELTA, SENSITIVITY = 0.5, 1e-5, 1e-3


def bench_top_k_against_peeling(small: bool = False) -> Measurement:
    """Compare at the size of the swarm."""
    return _compared(d=2_400, s=50, small=small)


def bench_top_k_against_peeling_wide(small: bool = False) -> Measurement:
    """Compare at the size of the sparse simulations."""
    return _compared(d=4_000, s=40, small=small)


def _compared(*, d: int, s: int, small: bool) -> Measurement:
    """Time selection and release of s of d coordinates, and compare the noise at equal (ε, δ)."""
    n_replicates, repeats = (2, 1) if small else (100, 7)
    values = np.random.default_rng(0).standard_normal((d, n_replicates))
    halves = {"selection": 0.5, "values": 0.5}
    budget = Budget(epsilon=EPSILON, delta=DELTA, shares=halves, gaussian=False)
    selection = 2 / budget.selection_epsilon("selection", s)
    release = budget.gaussian_multiplier("values")
    printed = printed_multiplier(EPSILON, DELTA, s)

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
