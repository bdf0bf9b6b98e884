"""Sparsity by hold-out: a private fit on four fifths of the rows, a private choice on the last fifth.

    path = fit on the first 4n/5 rows, at the largest sparsity
    u_s = −(1/n_B) Σ_B loss of a row under the model that keeps s entries,   truncated to an interval
    s = the exponential mechanism's choice by u,   answer = the model that keeps s entries

Why it is private. The fit is, with its share of ρ. Given the released path all models are fixed, so that a
row moves every u_s by at most (length of the interval)/n_B, attained by a row of least loss against one of
largest loss: one event of bounded range. Both are charged in full, although a row is in only one of the two
parts: parallel composition would need the rest of the pipeline to be tracked by row.

The rows are parted by their index, which is public. No refit: the noise is that of 4n/5 rows.
"""

from collections.abc import Sequence

import numpy as np

from dpalgos.mechanisms.top_k import exponential_mechanism
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.tuning.sparsity import LABEL, N_FOLDS, Fit, Loss, fold, nested_models, take_model
from dpalgos.typing import FloatArray


def chosen_by_holdout(
    sample: Sample,
    fits: Sequence[Fit],
    loss: Loss,
    *,
    grid: tuple[int, ...],
    epsilon: float,
    transcript: Transcript,
) -> FloatArray:
    """Return the chosen model, (d, R).

    The one function in ``fits`` maps rows to the released path (d, R) at the largest sparsity; ``epsilon`` is
    ε0 of the choice among ``grid``.
    """
    last = fold(sample, N_FOLDS - 1)
    (fit,) = fits
    models = nested_models(fit(last.train), grid)
    n_rows = np.broadcast_to(last.weights.sum(axis=0), (sample.n_replicates,))
    chosen = exponential_mechanism(
        transcript,
        -loss.total(last, models) / n_rows,
        sensitivity=loss.mean_sensitivity(n_rows),
        epsilon=epsilon,
        label=LABEL,
    )
    return take_model(models, chosen)
