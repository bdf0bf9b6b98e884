"""Sparsity by a private choice: by hold-out, or by cross-validation over five folds; and by the printed way.

The models compared are fixed before a row is looked at for the choice, so that a row moves the score of each
by its own loss only, truncated to an interval of length L (τ, or 2τ for a loss of either sign); the
exponential mechanism chooses by the scores: one event of bounded range.

Hold-out. A private fit on four fifths of the rows at the largest sparsity, and the mean loss on the last
fifth of the models that keep s of its entries, moved by at most L/n_B (attained by a row of least loss
against one of largest). Both are charged in full, although a row is in only one of the two parts: parallel
composition would need the rest of the pipeline to be tracked by row. Rows are parted by their index, which is
public. No refit: the noise is that of 4n/5 rows.

Cross-validation. CV(s) = (1/n) Σ_k Σ_{i in fold k} loss of row i under fold k's model with s entries. Every
fold's path is a release with a share of ρ of its own; given the paths a row moves CV by at most L/n. Five
paths, the choice, and a last fit on all rows are charged in full (a row is in four of the five training sets,
so that four would be enough). The last fit is at the largest sparsity and is cut to the chosen one, so that
its cost does not depend on the choice.

As printed (Cai, Wang & Zhang, The Cost of Privacy, section 5.2) the folds' models are not private and CV is
assumed to move by τ/n. But a row trains the models of four folds: replacing it moves its own loss *and* the
losses of 4n/5 rows, by τ (4/5 + 1/n) in all (attained). So the printed way is under-noised by a factor of
about .8 n; with the true sensitivity the mechanism would choose at random. :func:`as_printed` records an
unprotected event, which certifies nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Protocol, TypeVar

import numpy as np

from dpalgos.accounting.calibration import TunedNoise, tuned_noise
from dpalgos.accounting.events import BoundedRangeEvent, Event, GaussianEvent, UnprotectedEvent
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
P_contra = TypeVar("P_contra", bound=SparsityParams, contravariant=True)


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


@dataclass(frozen=True, kw_only=True)
class FitNoise:
    """The noise of a fit that selects ``sparsity`` entries and releases them, round by round.

    ``rounds`` are pairs of multipliers: Gumbel scale, and Gaussian standard deviation, over sensitivity. With
    it ``n_quantiles`` quantiles may be released, each for ε0 = ``quantile_epsilon``.
    """

    sparsity: int
    rounds: tuple[tuple[float, float], ...] = ()
    n_quantiles: int = 0
    quantile_epsilon: float = np.nan

    def scaled(self, factor: float) -> "FitNoise":
        """Return the noise multiplied by a factor."""
        rounds = tuple((factor * selection, factor * values) for selection, values in self.rounds)
        return replace(self, rounds=rounds, quantile_epsilon=self.quantile_epsilon / factor)

    def events(self, factor: float = 1.0) -> list[Event]:
        """Return what a fit releases, with the noise multiplied by a factor."""
        events: list[Event] = []
        for selection, values in self.scaled(factor).rounds:
            epsilon = 2 / selection
            events.append(BoundedRangeEvent(label="", epsilon=epsilon, sensitivity=1.0, count=self.sparsity))
            events.append(GaussianEvent(label="", noise_multiplier=values, l2_sensitivity=1.0))
        if self.n_quantiles:
            epsilon = self.quantile_epsilon / factor
            events.append(
                BoundedRangeEvent(label="", epsilon=epsilon, sensitivity=1.0, count=self.n_quantiles)
            )
        return events

    def with_quantiles(self, n: int, *, share: float, epsilon: float, delta: float) -> "FitNoise":
        """Return the noise of a fit that also releases n quantiles for a share of ρ, (ε, δ)-DP in all."""
        noise = tuned_noise(self.events, epsilon=epsilon, delta=delta, selection_share=share, n_selections=n)
        (factor,) = noise.fit_factors
        return replace(self.scaled(factor), n_quantiles=n, quantile_epsilon=noise.selection_epsilon)


class SparseFit(Protocol[P_contra]):
    """A fit: rows, keywords, transcript and a factor on its noise → (d, R)."""

    def __call__(
        self, sample: Sample, params: P_contra, transcript: Transcript, noise_factor: float = 1.0
    ) -> FloatArray:
        """Return the released answer with ``params.sparsity`` entries."""


def with_chosen_sparsity(
    sample: Sample,
    params: P,
    transcript: Transcript,
    *,
    fit: SparseFit[P],
    noise: Callable[[P], FitNoise],
    models: Callable[[Sample, P], list[FloatArray]],
    loss: Loss,
) -> FloatArray:
    """Return the answer at the sparsity that ``params.sparsity_choice`` stands for, (d, R).

    ``fit`` is the private fit, (ε, δ)-DP at a noise factor of 1, and ``noise`` its noise; ``models`` maps
    rows to the models of the grid without privacy, for cross-validation as printed.
    """
    match params.sparsity_choice:
        case "printed_cross_validation":
            return as_printed(sample, params, transcript, models=models, loss=loss, estimator=fit)
        case "holdout":
            choose = chosen_by_holdout
        case "cross_validation":
            choose = chosen_by_cross_validation
        case _:  # as given, or cut by the fit itself
            return fit(sample, params, transcript)
    planned = planned_choice(params, noise(params))
    fits = [
        partial(fit, params=params, transcript=transcript, noise_factor=factor)
        for factor in planned.fit_factors
    ]
    return choose(
        sample, fits, loss, grid=params.grid, epsilon=planned.selection_epsilon, transcript=transcript
    )


@lru_cache(maxsize=4096)
def planned_choice(params: SparsityParams, noise: FitNoise) -> TunedNoise:
    """Return the noise of a private choice and of the fits that it needs."""
    chosen, *fits = params.choice_shares
    return tuned_noise(
        noise.events,
        epsilon=params.epsilon,
        delta=params.delta,
        selection_share=chosen,
        n_selections=1,
        fit_shares=fits,
    )
