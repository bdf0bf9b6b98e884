"""Sparse fits: what they cost at a given noise, and how their sparsity is chosen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Protocol, TypeVar

import numpy as np

from dpalgos.accounting.calibration import TunedNoise, tuned_noise
from dpalgos.accounting.events import BoundedRangeEvent, Event, GaussianEvent
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.tuning.choices import as_printed, chosen_by_cross_validation, chosen_by_holdout
from dpalgos.tuning.sparsity import Loss, SparsityParams
from dpalgos.typing import FloatArray

P = TypeVar("P", bound=SparsityParams)
P_contra = TypeVar("P_contra", bound=SparsityParams, contravariant=True)


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
