"""Choosing one of d candidates by private scores: the exponential mechanism.

    P(j) ∝ exp(ε₀ score_j / (2λ)):  argmax of score_j + Gumbel(2λ/ε₀)

λ: how far a neighbour moves any one score; if all scores move the same way (``monotone``), λ/ε₀ is enough.
The log-probability ratios span at most ε₀: ε₀²/8 zCDP.

References
----------
McSherry & Talwar (2007). Dong, Durfee & Rogers (2020): bounded range.
"""

import numpy as np

from dpalgos.mechanisms.top_k import gumbel_top_k
from dpalgos.release.checks import check_positive
from dpalgos.release.transcript import Transcript
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
