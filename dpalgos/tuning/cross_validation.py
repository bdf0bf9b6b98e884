"""Sparsity by cross-validation over five folds: with private models, or as printed.

    CV(s) = (1/n) Σ_k Σ_{i in fold k} loss of row i under fold k's model with s entries

a loss truncated to an interval of length L (τ, or 2τ for a loss of either sign); s is drawn by the
exponential mechanism on −CV.

As printed the models are not private and the mechanism assumes that CV moves by τ/n. But a row is in one
fold and trains the models of the other four: replacing it moves its own loss *and* the losses of 4n/5 rows,
by τ (4/5 + 1/n) in all, .81 τ for n = 100 (attained). So the printed way is under-noised by a factor of about
.8 n; with the true sensitivity the mechanism would choose at random. :func:`as_printed` records an
unprotected event, which certifies nothing.

With private models (:func:`chosen_by_cross_validation`) every fold's path is a release with a share of ρ of
its own, its sensitivities over 4n/5 rows. *Given the released paths* a row moves CV by its own loss only, at
most L/n, attained by a row of least loss against one of largest. Five paths, the choice, and a last fit on
all rows are charged in full (a row is in four of the five training sets, so that four would be enough). The
last fit is at the largest sparsity and is cut to the chosen one, so that its cost does not depend on the
choice.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, section 5.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dpalgos.accounting.events import UnprotectedEvent
from dpalgos.mechanisms.top_k import exponential_mechanism
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.tuning.sparsity import (
    LABEL,
    N_FOLDS,
    Fit,
    Loss,
    SparsityParams,
    fold,
    nested_models,
    take_model,
)
from dpalgos.typing import FloatArray

P = TypeVar("P", bound=SparsityParams)


def cross_validation(
    sample: Sample, fits: Sequence[Callable[[Sample], list[FloatArray]]], loss: Loss
) -> FloatArray:
    """Return CV of every model of the grid, (len(grid), R); ``fits`` train one fold's models each."""
    total: FloatArray | float = 0.0
    for k, fit in enumerate(fits):
        part = fold(sample, k)
        total = total + loss.total(part, fit(part.train))
    return np.asarray(total / sample.n_rows)


def chosen_by_cross_validation(
    sample: Sample,
    fits: Sequence[Fit],
    loss: Loss,
    *,
    grid: tuple[int, ...],
    epsilon: float,
    transcript: Transcript,
) -> FloatArray:
    """Return the last fit's model of the chosen sparsity, (d, R).

    Each of six ``fits`` maps rows to a released path (d, R) at the largest sparsity: one for each fold, and
    the last. ``epsilon`` is ε0 of the choice among ``grid``.
    """

    def nested(fit: Fit) -> Callable[[Sample], list[FloatArray]]:
        return lambda rows: nested_models(fit(rows), grid)

    *of_folds, last = fits
    chosen = exponential_mechanism(
        transcript,
        -cross_validation(sample, [nested(fit) for fit in of_folds], loss),
        sensitivity=loss.mean_sensitivity(sample.n_rows),
        epsilon=epsilon,
        label=LABEL,
    )
    return take_model(nested_models(last(sample), grid), chosen)


def as_printed(
    sample: Sample,
    params: P,
    transcript: Transcript,
    *,
    models: Callable[[Sample, P], list[FloatArray]],
    loss: Loss,
    estimator: Callable[[Sample, P, Transcript], FloatArray],
) -> FloatArray:
    """Return the estimate at a sparsity that was chosen as printed; not private, which is recorded.

    ``models`` maps rows to the models of the grid, without privacy; ``estimator`` is run at the chosen
    sparsity.
    """
    scores = -cross_validation(sample, [lambda rows: models(rows, params)] * N_FOLDS, loss)

    def draw() -> FloatArray:
        drawn = np.empty((sample.n_features, sample.n_replicates))
        for r in range(sample.n_replicates):
            own = _replicate(sample, r)
            inner = Transcript(transcript.noise.select(slice(r, r + 1)))
            chosen = exponential_mechanism(
                inner,
                scores[:, r : r + 1],
                sensitivity=loss.mean_sensitivity(own.n_rows),
                epsilon=params.epsilon,
                label=LABEL,
            )
            settings = replace(
                params, sparsity=params.grid[chosen[0]], sparsity_choice=None, sparsity_grid=None
            )
            drawn[:, r] = estimator(own, settings, inner)[:, 0]
        return drawn

    event = UnprotectedEvent(label="cross-validation with the printed sensitivity")
    return transcript.publish(scores, draw, event)


def _replicate(sample: Sample, r: int) -> Sample:
    rows = None if sample.row_mask is None else sample.row_mask[:, r]
    return sample.derived(rows=rows, n_replicates=1)
