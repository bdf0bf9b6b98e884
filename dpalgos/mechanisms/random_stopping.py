"""Selection among K candidates by private scores, drawn afresh a random number of times.

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

import numpy as np
import scipy

from dpalgos.accounting.events import Proved
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, IntArray

SCORE_FACTOR = 3.0  # the whole costs this many times what a score does

# (candidates (N,), a source for one replicate) → fresh private scores (N,), less is better.
Scores = Callable[[IntArray, Noise], FloatArray]


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
