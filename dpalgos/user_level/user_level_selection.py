"""The best of K public candidates by users' losses: every user is protected with all rows.

    s_k = the mean over users of (mean over the user's rows of ℓ(x'θ_k, y) truncated to [0, B])

``rule="random_stopping"``: winsorized means of s_k, drawn afresh for random candidates until chance says
stop, at a third of ε each. Pure ε-DP; noise ∝ τ, the radius
within which users' losses lie of their mean: B√(log(2Kn/α) / (2m)) for m rows each. ``rule="exponential"``:
the exponential mechanism on s_k, moved by at most B/n by one user; noise ∝ B/n. It is better until m is some
thousands: the first pays 24τ/n and a larger logarithm.

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public.
Public: the candidates, B = ``loss_bound``, τ = ``concentration_radius``. Users count once each.

    release    sensitivity                      cost
    choice     B/n, exponential                 ε
    choice     ε/3 each score, by its proof     ε, random stopping

Departure: Lemma 1's radius, (B/2)√(log(2Kn/α)/m), is √2 too small; the caller gives it.

Reference: Levy et al., Learning with User-Level Privacy, Algorithm 5, Theorem 7.

Selection among K candidates by private scores, drawn afresh a random number of times.

    repeat:  J uniform among the K;  V = a fresh ε₁-DP score of candidate J;  stop with probability γ
    release the candidate with the smallest V, and that V

The total cost is 3ε₁ (δ = 0) for any number of scores (Liu & Talwar 2019, Theorem 3.2; Papernot & Steinke
2022 with η = 1). The count is geometric, and the other scores stay secret.

Why the count matters. Stopping at a cap, min(count, N), is best-of-N and costs up to 2Nε₁. Stopping by the
scores costs more still. If run time must be bounded, the count is drawn from the geometric law *conditioned*
on count ≤ N. For any non-increasing law w_k on 1, 2, … the generating function f has (1 − s) f''(s) ≤ 2
f'(s). Therefore log f' moves by at most 2ε₁ as 1 − s changes by a factor e^ε₁. With the ε₁ of the chosen
score itself, that is 3ε₁ again.

The best candidate is never drawn with probability γ(K − 1) / (1 + γ(K − 1)): γ = α / (5K) makes that α/5.

References
----------
Levy et al., Learning with User-Level Privacy, Algorithm 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from dpalgos.accounting.events import Relation
from dpalgos.accounting.other_events import Proved, Selection
from dpalgos.catalog import Form, register
from dpalgos.core.other_plans import least_noise_plan
from dpalgos.core.persons import sums_of_units
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.private_range import count_bins
from dpalgos.mechanisms.sensitivity import Lemmas, interval, lemma
from dpalgos.mechanisms.winsorized_mean import FINE_WINDOW, PRINTED_WINDOW, Window, repeated_winsorized_means
from dpalgos.params import checked, choice, positive
from dpalgos.release.checks import LARGEST_BOUND, check_probability
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, IntArray
from dpalgos.user_level.aggregation import UserLevelEstimator
from dpalgos.user_level.first_order import LINEAR_LOSSES

SCORE_FACTOR = 3.0  # the whole costs this many times what a score does


# (candidates (N,), a source for one replicate) → fresh private scores (N,), less is better.
Scores = Callable[[IntArray, Noise], FloatArray]
_CANDIDATES_AT_ONCE = 16
CHOICE = "choice"


def cost(score_epsilon: float) -> Proved:
    """Return the event of a choice by scores that are ``score_epsilon``-DP each."""
    return Proved(SCORE_FACTOR * score_epsilon, delta=0.0)


def stopped_at_random(
    noise: Noise, n_candidates: int, scores: Scores, *, stop_probability: float
) -> FloatArray:
    """Draw the index and the score of the candidate with the smallest score, (2, R).

    ``scores`` draws fresh scores, each ε₁-DP. ``stop_probability`` is γ: 1/γ draws on average.
    """
    drawn = np.empty((2, noise.n_replicates))
    for r in range(noise.n_replicates):
        own = noise.select(slice(r, r + 1))
        n_draws = number_of_draws(float(scipy.special.ndtr(own.normal(1))[0, 0]), stop_probability)
        uniforms = scipy.special.ndtr(own.normal(n_draws))[:, 0]
        which = np.minimum((uniforms * n_candidates).astype(np.int64), n_candidates - 1)
        each = scores(which, own)
        best = int(np.argmin(each))
        drawn[:, r] = which[best], each[best]
    return drawn


def number_of_draws(uniform: float, stop_probability: float) -> int:
    """Return the quantile at a uniform number of the geometric law."""
    log_go_on = np.log1p(-stop_probability)
    return max(1, int(np.ceil(np.log1p(-min(uniform, 1 - 2.0**-53)) / log_go_on)))


def _check_candidates(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    columns = isinstance(value, int | np.integer) and not isinstance(value, bool) and value > 1
    array = np.eye(value) if columns else np.asarray(value)
    is_numeric = array.dtype.kind in "iuf" and array.ndim == 2 and len(array) > 1
    if not is_numeric or not (np.abs(array) <= LARGEST_BOUND).all():
        raise InputError(
            f"{name} must be at least two vectors, a (K, d) array of numbers within ±{LARGEST_BOUND:g}, or "
            f"the number of columns of X, got {array.dtype} {array.shape}"
        )
    return tuple(map(tuple, array.astype(float).tolist()))


@lemma("B/n")
def loss_sensitivity(loss_bound: float, n_users: float) -> FloatArray:
    """Return B/n, for mean losses in [0, B]: a user of no loss against one of the largest.

    With random stopping, a score is a winsorized mean that is ε/3-DP by its own releases, for any losses.
    """
    return np.asarray(interval(loss_bound, n_users))


@register(
    name="user_level_selection",
    title="Selection over users",
    order=33,
    task="linear_regression",
    relation=Relation.USER,
    reference="Levy et al., Learning with User-Level Privacy, Algorithm 5",
    summary="Chooses among public candidates by winsorized mean losses of users, with random stopping.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={
        "candidates": ((1.0, -0.5, 0.25), (0.0, 0.0, 0.0), (0.5, -0.5, 0.5)),
        "loss": "squared",
        "loss_bound": 1.0,
        "concentration_radius": 0.3,
        "range_failure": 1.0,
        "miss_probability": 0.5,
    },
    forms={"exponential": Form(keywords={"rule": "exponential"}, calibrations=("tight", "paper"))},
)
@dataclass(frozen=True, kw_only=True)
class UserLevelSelection(UserLevelEstimator):
    """The candidate that is chosen by users' mean losses."""

    candidates: tuple[tuple[float, ...], ...] = checked(
        "(K, d), public: coefficients to choose from; or K: the columns of X, each a prediction",
        _check_candidates,
    )
    loss: str = choice("of the linear predictor", tuple(LINEAR_LOSSES))
    loss_bound: float = positive("B: losses are truncated to [0, B]")
    rule: str = choice(
        "'random_stopping': noise in proportion to τ; 'exponential': to B",
        ("random_stopping", "exponential"),
        default="random_stopping",
    )
    miss_probability: float = checked(
        "α: the best candidate is left out with probability α/5 at most", check_probability, default=0.1
    )

    lemmas: ClassVar[Lemmas] = {CHOICE: loss_sensitivity}

    def plan(self, n: float, d: int) -> Plan:
        columns = len(self.candidates[0])
        if columns != d:
            raise InputError(f"candidates must have one number per column of X ({d}), got {columns}")
        if self.rule == "exponential":
            plan = {CHOICE: Selection(self.epsilon)}
            return plan if self.calibration == "paper" else least_noise_plan(self.epsilon, self.delta, plan)
        n_bins = count_bins(self.loss_bound, self.window.bin_width)
        self.check_range(n, n_bins, self.score_epsilon / 2, 1 / self.stop_probability)
        return {CHOICE: cost(self.score_epsilon)}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        losses = mean_losses(rows, self)
        if self.rule == "exponential":
            scores = loss_sensitivity.of(-losses.mean(axis=0), self.loss_bound, rows.n)
            chosen = spend.choose(CHOICE, scores)[0]
        else:
            chosen = self.stopped_at_random(spend, losses)
        return np.asarray(np.array(self.candidates)[chosen])

    def stopped_at_random(self, spend: Spend, losses: FloatArray) -> int:
        """Return the candidate chosen by random stopping from losses (n, K), and note its released loss."""
        bound, window, each = self.loss_bound, self.window, self.score_epsilon

        def scores(candidates: IntArray, noise: Noise) -> FloatArray:
            return repeated_winsorized_means(
                losses, candidates, noise, bound=bound, window=window, epsilon=each / 2
            )

        # The mean losses, without noise, are for the record alone.
        means, n_candidates = losses.mean(axis=0)[:, None], losses.shape[1]
        chosen, loss = spend.release(
            CHOICE,
            means,
            lambda: stopped_at_random(
                spend.noise, n_candidates, scores, stop_probability=self.stop_probability
            ),
            proved=cost(each),
        )
        spend.note("mean loss of the chosen candidate", float(loss[0]))
        return int(chosen[0])

    @property
    def stop_probability(self) -> float:
        """γ = α / (5K)."""
        return self.miss_probability / (5 * len(self.candidates))

    @property
    def score_epsilon(self) -> float:
        """The ε of a score with random stopping."""
        return self.epsilon / SCORE_FACTOR

    @property
    def window(self) -> Window:
        """The window of winsorized mean losses."""
        window = PRINTED_WINDOW if self.calibration == "paper" else FINE_WINDOW
        return window.scaled_by(self.concentration_radius)


def mean_losses(rows: Rows, estimator: UserLevelSelection) -> FloatArray:
    """Return each user's mean truncated loss of each candidate, (n_users, K)."""
    candidates, value = np.array(estimator.candidates), LINEAR_LOSSES[estimator.loss].value
    losses = []
    for start in range(0, len(candidates), _CANDIDATES_AT_ONCE):
        some = candidates[start : start + _CANDIDATES_AT_ONCE]
        used = np.flatnonzero(some.any(axis=0))

        def part(block: Block, coef: FloatArray = some[:, used], used: IntArray = used) -> Any:
            each = value(block.predictors(coef, block.X[:, used]), block.y).T
            # Fmin: what is not a number counts as the largest loss.
            return block.row_weights, np.maximum(np.fmin(each, estimator.loss_bound), 0.0)

        losses.append(sums_of_units(rows, part, len(some)))
    return np.concatenate(losses, axis=1)
