"""Choosing one of d candidates by private scores: the exponential mechanism.

    exponential mechanism    P(j) ∝ exp(ε₀ score_j / (2λ)):  argmax of score_j + Gumbel(2λ/ε₀)
    permute-and-flip         argmax of score_j + Exponential(2λ/ε₀)

λ: how far a neighbour moves any one score; if all scores move the same way (``monotone``), λ/ε₀ is enough.

Costs. The exponential mechanism's log-probability ratios span at most ε₀: ε₀²/8 zCDP. Permute-and-flip is
ε₀-DP: fix the rivals' noise; j wins if its noise e_j exceeds t; a neighbour moves t by at most 2λ (λ if
monotone), and P(e_j > t) = e^(−max(t, 0)/scale) changes by at most a factor e^ε₀. It errs less on one
choice, but its ratios span up to 2ε₀, already for two equal scores moved apart: P = (½, ½) against
(1 − ½e^(−ε₀), ½e^(−ε₀)) has KL divergence −½ log(1 − (1 − e^(−ε₀))²) ≈ ε₀²/2. So it is charged ε₀²/2, and
nothing less would do for small ε₀: with zCDP accounting, prefer the exponential mechanism.

References
----------
McSherry & Talwar (2007). McKenna & Sheldon (2020), Permute-and-flip. Ding et al. (2021): permute-and-flip is
report-noisy-max with exponential noise. Dong, Durfee & Rogers (2020): bounded range.
"""

import numpy as np

from dpalgos.accounting.events import PureEvent
from dpalgos.mechanisms.checks import check_columns, check_positive, check_sensitivity
from dpalgos.mechanisms.top_k import gumbel_top_k
from dpalgos.mechanisms.transcript import Transcript, plain_sensitivity
from dpalgos.typing import FloatArray, IntArray


def exponential_mechanism(
    transcript: Transcript,
    scores: FloatArray,
    *,
    sensitivity: float | FloatArray,
    epsilon: float,
    label: str,
    monotone: bool = False,
) -> IntArray:
    """Release one index with probability ∝ exp(ε score / (2λ)).

    Parameters
    ----------
    transcript : Transcript
        Where it is released and recorded.
    scores : (d, R) array
        Private scores, larger is better.
    sensitivity : float or (R,) array
        λ. Witness: one score up by λ, another down by λ.
    epsilon : float
        ε₀.
    label : str
        Names the choice in the record.
    monotone : bool
        Whether a neighbour moves all scores in the same direction; then ∝ exp(ε score / λ).

    Returns
    -------
    (R,) int array

    Raises
    ------
    InputError
        If an argument is out of range or a shape is wrong.
    """
    chosen = gumbel_top_k(
        transcript,
        scores,
        sensitivity=sensitivity,
        noise_multiplier=(1 if monotone else 2) / check_positive("epsilon", epsilon),
        k=1,
        label=label,
        monotone=monotone,
    )
    return np.asarray(chosen[0])


def permute_and_flip(
    transcript: Transcript,
    scores: FloatArray,
    *,
    sensitivity: float | FloatArray,
    epsilon: float,
    label: str,
    monotone: bool = False,
) -> IntArray:
    """Release one index by permute-and-flip; arguments as in :func:`exponential_mechanism`.

    Returns
    -------
    (R,) int array
    """
    scores = check_columns("scores", scores, transcript.n_replicates)
    epsilon = check_positive("epsilon", epsilon)
    scale = (1 if monotone else 2) * check_sensitivity("sensitivity", sensitivity) / epsilon

    def draw() -> IntArray:
        # The absolute value of a Laplace variable is exponential.
        noisy = scores + scale * np.abs(transcript.noise.laplace(len(scores)))
        return np.asarray(noisy.argmax(axis=0)[None, :])

    event = PureEvent(label=label, epsilon=epsilon, sensitivity=plain_sensitivity(sensitivity), norm=np.inf)
    return np.asarray(transcript.choose(scores, draw, event)[0])
