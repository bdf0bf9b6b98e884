"""The k largest in one shot: one Gumbel vector instead of k rounds of noise.

    S = the k largest of score_j + Gumbel(g), in order

S has the joint law of k exponential mechanisms without replacement. Each has weights ∝ exp(score_j / g) on
the coordinates that are left.

Why. exp(−(score_j + Gumbel(g)) / g) is an exponential variable of rate exp(score_j / g). Therefore S are the
first k to ring in a race of independent clocks. The first is j with probability ∝ its rate. After it, the
others start afresh, because exponential clocks have no memory.

The cost. Let a neighbor move every score by at most λ. A choice among the coordinates that are left changes
its log-probabilities by (Δscore_j)/g less a common constant. Their ratios span at most ε₀ = 2λ/g: an
ε₀-bounded-range event, with ε₀²/8 zCDP. The k choices compose adaptively: k such events. This is *not* true
of one-shot Laplace noise, whose single choice already exceeds ε₀²/8.

The selected values are then released with fresh noise. Given the published support, k coordinates move by λ
each: √k λ in ℓ2 (Gaussian), or k Laplace releases of sensitivity λ.

The exponential mechanism (:func:`exponential_mechanism`) is k = 1, with g = 2λ/ε₀.

References
----------
McSherry & Talwar (2007), Mechanism design via differential privacy.
Dong, Durfee & Rogers (2020), Optimal differential privacy composition for exponential mechanisms.
Durfee & Rogers (2019), Practical differentially private top-k selection with pay-what-you-get composition.
Cesar & Rogers (2021), Bounding, concentrating, and truncating.
"""

from typing import Any

import numpy as np

from dpalgos.accounting.events import BoundedRangeEvent, PureEvent
from dpalgos.release.declared import Release, lemma
from dpalgos.release.transcript import Transcript, plain_sensitivity
from dpalgos.typing import FloatArray, IntArray

_GROUP_ELEMENTS = 40_000


def gumbel_top_k(
    transcript: Transcript,
    release: Release,
    scores: FloatArray,
    *,
    sensitivity: float | FloatArray,
    noise_multiplier: float,
    k: int,
    by_magnitude: bool = False,
) -> IntArray:
    """Release the k largest scores (d, R), in order, (k, R).

    ``sensitivity`` is λ, () or (R,): how far a neighbor moves any one score. ``noise_multiplier`` is the
    Gumbel scale over it, g/λ: k events of bounded range ε₀ = 2/noise_multiplier. With ``by_magnitude``,
    |score| decides. It moves by no more than the score: ||v| − |v'|| ≤ |v − v'|.
    """
    scale = noise_multiplier * np.asarray(sensitivity)

    def draw() -> IntArray:
        # Replicates are rows here: a few at a time stay in the cache.
        rows = (np.abs(scores) if by_magnitude else scores).T
        scales = np.broadcast_to(scale, (len(rows),))[:, None]
        support = np.empty((k, len(rows)), dtype=np.intp)
        step = max(1, _GROUP_ELEMENTS // len(scores))
        for group, noisy in transcript.noise.gumbel_rows(len(scores), step):
            noisy *= scales[group]
            noisy += rows[group]
            support[:, group] = _largest_in_order(noisy, k).T
        return support

    event = BoundedRangeEvent(
        label=release.label,
        epsilon=2 / noise_multiplier,
        sensitivity=plain_sensitivity(sensitivity),
        count=k,
        by_magnitude=by_magnitude,
    )
    return transcript.choose(scores, draw, event)


def exponential_mechanism(
    transcript: Transcript,
    release: Release,
    scores: FloatArray,
    *,
    sensitivity: float | FloatArray,
    epsilon: float,
) -> IntArray:
    """Release one index per replicate, (R,), with probability ∝ exp(ε score / (2λ)).

    ``epsilon`` is the ε₀ of the choice. Witness: one score up by λ, another down by λ.
    """
    settings: Any = {"sensitivity": sensitivity, "noise_multiplier": 2 / epsilon}
    return np.asarray(gumbel_top_k(transcript, release, scores, k=1, **settings)[0])


@lemma("√k λ")
def selected_l2_sensitivity(linf_sensitivity: float | FloatArray, k: int) -> FloatArray:
    """Return √k λ, how far k published coordinates can move in ℓ2.

    Given the support, each of the k coordinates moves by at most λ. Witness: all of them by λ.
    """
    return np.asarray(float(np.sqrt(k)) * linf_sensitivity)


def release_laplace(
    transcript: Transcript,
    release: Release,
    values: FloatArray,
    *,
    linf_sensitivity: float | FloatArray,
    epsilon: float,
) -> FloatArray:
    """Release k coordinates, each moved by at most λ, with Laplace noise of scale λ/``epsilon``.

    The charge is k releases of ``epsilon`` each: k ε²/2 in zCDP. One release of ℓ1 sensitivity kλ would cost
    (kε)²/2. Witness: a neighbor that moves every coordinate by λ. A single coordinate has a
    floating-point-safe sampler.
    """
    if len(values) == 1:
        return transcript.add_noise(
            values, PureEvent(label="", epsilon=epsilon, sensitivity=1.0), linf_sensitivity, release.label
        )
    scale = np.asarray(linf_sensitivity) / epsilon
    event = PureEvent(
        label=release.label,
        epsilon=epsilon,
        sensitivity=plain_sensitivity(linf_sensitivity),
        count=len(values),
        norm=np.inf,
    )
    return transcript.publish(
        values, lambda: np.asarray(values + scale * transcript.noise.laplace(len(values))), event
    )


def _largest_in_order(rows: FloatArray, k: int) -> IntArray:
    """Return the places of the k largest entries of each row, in order, (r, k)."""
    if k == 1:
        return np.asarray(rows.argmax(axis=1)[:, None])
    d, n_chunks = rows.shape[1], 4 * k
    length = d // n_chunks
    if length < 4:
        largest = np.argpartition(rows, d - k, axis=1)[:, d - k :]
        order = np.argsort(-np.take_along_axis(rows, largest, axis=1), axis=1)
        return np.take_along_axis(largest, order, axis=1)
    # The k-th largest of some entries, here the maxima of chunks, is at most that of all: few lie above it.
    maxima = rows[:, : n_chunks * length].reshape(len(rows), length, n_chunks).max(axis=1)
    least = np.partition(maxima, n_chunks - k, axis=1)[:, n_chunks - k]
    row, column = np.divmod(np.flatnonzero(rows >= least[:, None]), d)
    order = np.lexsort((-rows[row, column], row))
    starts = np.searchsorted(row, np.arange(len(rows)))
    return np.asarray(column[order[starts[:, None] + np.arange(k)]])
