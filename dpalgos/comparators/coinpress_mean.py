"""CoinPress: the mean of rows clipped to balls that shrink round after round (Biswas et al. 2020).

    m ← m + [ (1/n) Σ_i clip(x_i − m, r_t) + N(0, s_t² I) ],   t = 1 … T,   from m = 0 and ρ_0 = √d B

    r_t = min( √(ρ² + 6 ρ σ + γ² σ²), ρ + γ σ ),   γ² = d + 2 √(d log 1/β) + 2 log 1/β,   β = 0.01
    ρ_t = γ √(σ²/n + s_t²)   bounds the error of m after round t, s_t the round's noise sd

clip shortens a vector to ℓ2 norm r_t. As in the authors' code, 3 replaces √log(2/β) in r_t.

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``mean_bound`` B (every coordinate of the mean
lies in ±B), ``std_bound`` σ (the largest standard deviation in any direction), ``n_rounds`` T.

Why it is private. A round releases the mean offset from the center with Gaussian noise. Opposite rows on the
ball move it by 2r/n (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). The center and the radius follow from
earlier rounds.

Calibrations
    ``tight``: shares of μ²; all rounds together are exactly (ε, δ).
    ``paper``: shares of ρ of zero-concentrated DP, for the ρ with ρ + 2 √(ρ log 1/δ) = ε; same sensitivities.

Departure: the known covariance of the paper is σ² I, one bound for all columns.

Reference: Biswas, Dong, Kamath & Ullman (2020), CoinPress: practical private mean and covariance estimation,
Algorithms 1 and 2.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import printed_rho
from dpalgos.accounting.calibration import gaussians
from dpalgos.catalog import Form, Release, register
from dpalgos.intervals.means import BALL_SQUARES, BALL_TAIL, ReleasedOffset, interval_in_ball, interval_plan
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.params import IntervalParams, count, positive
from dpalgos.release.spend import Planned, Spend, left_of
from dpalgos.release.transcript import Transcript
from dpalgos.rows.ball import Ball, mean_offset
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_LAST_SHARE = 0.75
_MISS = 0.01  # β; affects accuracy only
_TAIL = 3.0  # printed for √log(2/β)


@dataclass(frozen=True, kw_only=True)
class CoinPressMeanParams(IntervalParams):
    """Keywords of :func:`coinpress_mean`."""

    mean_bound: float = positive("B: every coordinate of the mean lies in ±B")
    std_bound: float = positive("σ: the standard deviation in every direction is at most that")
    n_rounds: int = count("T, number of balls", default=4)


CENTER = Release("center", ball_mean)
MEAN = Release("mean", ball_mean)


def tail_norm(d: int, miss: float) -> float:
    """Return γ, which N(0, I) in d dimensions exceeds in norm with probability ``miss`` at most."""
    log_term = -np.log(miss)
    return float(np.sqrt(d + 2 * np.sqrt(d * log_term) + 2 * log_term))


def ball_radius(error: FloatArray, tail: float, sigma: float) -> FloatArray:
    """Return r_t for a center that is off by ``error`` at most, (R,); ``tail`` is γ σ."""
    return np.asarray(np.minimum(np.sqrt(error**2 + 2 * _TAIL * error * sigma + tail**2), error + tail))


@register(
    title="CoinPress",
    order=42,
    task="mean",
    reference="Biswas et al. (2020), Algorithms 1 and 2",
    summary="Means of rows clipped to a shrinking ball, each centered at the one before.",
    example={"mean_bound": 1.0, "std_bound": 0.6},
    releases=(CENTER, MEAN, BALL_SQUARES, BALL_TAIL),
    forms={"interval": Form(keywords={"interval": 0.95})},
)
def coinpress_mean(sample: Sample, params: CoinPressMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    d, sigma, n = sample.n_features, params.std_bound, sample.n_rows
    tail = tail_norm(d, _MISS) * sigma
    center: FloatArray = np.zeros((d, sample.n_replicates))
    error = np.full(sample.n_replicates, np.sqrt(d) * params.mean_bound)
    spend, coarse = _spend(params, transcript), params.n_rounds - 1
    for t in range(params.n_rounds):
        ball = Ball(center, ball_radius(error, tail, sigma))
        offset, std = spend(
            CENTER if t < coarse else MEAN, ball_mean.of(mean_offset(sample, ball), ball.radius, n)
        )
        center = center + offset
        error = tail * np.sqrt(1 / n + (std / sigma) ** 2)
    released = ReleasedOffset(offset, std, n)
    transcript.interval = interval_in_ball(spend, params.interval, sample, ball, released)
    spend.check_complete()
    return center


def _spend(params: CoinPressMeanParams, transcript: Transcript) -> Spend:
    coarse, last = params.n_rounds - 1, _LAST_SHARE if params.n_rounds > 1 else 1.0
    rounds = {CENTER: Planned(1 - last, coarse)} if coarse else {}
    rounds |= {MEAN: Planned(last)}
    if params.calibration == "tight":
        of_interval = interval_plan(params, BALL_SQUARES, BALL_TAIL)
        left = left_of(of_interval)
        plan = of_interval | {release: one.times_share(left) for release, one in rounds.items()}
        return Spend.of_plan(transcript, params.epsilon, params.delta, plan)
    rho = printed_rho(params.epsilon, params.delta)
    printed = {
        release.label: gaussians(float(np.sqrt(one.times / one.share / (2 * rho))), one.times)
        for release, one in rounds.items()
    }
    return Spend(transcript, printed)
