"""CoinPress: the mean of rows clipped to balls that shrink round after round (Biswas et al. 2020).

    m ← m + [ (1/n) Σ_i clip(x_i − m, r_t) + N(0, s_t² I) ],   t = 1 … T,   from m = 0 and ρ_0 = √d B

    r_t = min( √(ρ² + 6 ρ σ + γ² σ²), ρ + γ σ ),   γ² = d + 2 √(d log 1/β) + 2 log 1/β,   β = 0.01
    ρ_t = γ √(σ²/n + s_t²)   bounds the error of m after round t, s_t the round's noise sd

clip shortens a vector to ℓ2 norm r_t. As in the authors' code, 3 replaces √log(2/β) in r_t.

    release                   sensitivity (ℓ2)    share of μ²
    center, T − 1 times       2r/n                a quarter of the rest
    mean                      2r/n                three quarters of the rest
    squares of offsets        √2 r²/n             0.05, with an interval
    shares of rows by size    √3/n                0.12, with an interval

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
from typing import ClassVar

import numpy as np

from dpalgos.accounting.calibration import printed_rho
from dpalgos.accounting.events import Gaussian
from dpalgos.catalog import Form, register
from dpalgos.core.ball import Ball
from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.intervals.means import BALL_LEMMAS, SHARES, interval_in_ball, released_offset
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.params import count, positive
from dpalgos.typing import FloatArray

CENTER, MEAN = "center", "mean"
_LAST_SHARE = 0.75
_MISS = 0.01  # β; affects accuracy only
_TAIL = 3.0  # printed for √log(2/β)


def tail_norm(d: int, miss: float) -> float:
    """Return γ, which N(0, I) in d dimensions exceeds in norm with probability ``miss`` at most."""
    log_term = -np.log(miss)
    return float(np.sqrt(d + 2 * np.sqrt(d * log_term) + 2 * log_term))


def ball_radius(error: FloatArray, tail: float, sigma: float) -> FloatArray:
    """Return r_t for a center that is off by ``error`` at most, (…,); ``tail`` is γ σ."""
    return np.asarray(np.minimum(np.sqrt(error**2 + 2 * _TAIL * error * sigma + tail**2), error + tail))


@register(
    name="coinpress_mean",
    title="CoinPress",
    order=42,
    task="mean",
    reference="Biswas et al. (2020), Algorithms 1 and 2",
    summary="Means of rows clipped to a shrinking ball, each centered at the one before.",
    example={"mean_bound": 1.0, "std_bound": 0.6},
    forms={"interval": Form(keywords={"interval": 0.95})},
)
@dataclass(frozen=True, kw_only=True)
class CoinPressMean(IntervalEstimator):
    """The mean of rows clipped to a shrinking ball."""

    mean_bound: float = positive("B: every coordinate of the mean lies in ±B")
    std_bound: float = positive("σ: the standard deviation in every direction is at most that")
    n_rounds: int = count("T, number of balls", default=4)

    batch = True
    lemmas: ClassVar[Lemmas] = {CENTER: ball_mean, MEAN: ball_mean, **BALL_LEMMAS}

    def plan(self, n: float, d: int) -> Plan:
        coarse, last = self.n_rounds - 1, _LAST_SHARE if self.n_rounds > 1 else 1.0
        of_interval = {} if self.interval is None else SHARES
        left = 1 - sum(of_interval.values())
        rounds = {CENTER: Share((1 - last) * left, coarse)} if coarse else {}
        rounds |= {MEAN: Share(last * left)}
        if self.calibration == "tight":
            shares = rounds | {label: Share(share) for label, share in of_interval.items()}
            return gaussian_plan(self.epsilon, self.delta, shares)
        rho = printed_rho(self.epsilon, self.delta)
        return {
            label: Gaussian(float(np.sqrt(one.times / one.share / (2 * rho))), times=one.times)
            for label, one in rounds.items()
        }

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        sigma, coarse = self.std_bound, self.n_rounds - 1
        tail = tail_norm(rows.d, _MISS) * sigma
        center, error = rows.zeros(rows.d), rows.zeros() + np.sqrt(rows.d) * self.mean_bound
        for t in range(self.n_rounds):
            ball = Ball.plain(center, ball_radius(error, tail, sigma))
            offset = released_offset(rows, spend, CENTER if t < coarse else MEAN, ball)
            center = center + offset.value
            error = tail * np.sqrt(1 / rows.n + (offset.noise_std / sigma) ** 2)
        interval = interval_in_ball(rows, spend, self.interval, ball, offset)
        if interval is not None:
            spend.keep_interval(interval)
        return center
