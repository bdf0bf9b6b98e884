"""The best of K public candidates by users' losses: every user is protected with all rows.

    s_k = the mean over users of (mean over the user's rows of ℓ(x'θ_k, y) truncated to [0, B])

``rule="random_stopping"``: winsorized means of s_k, drawn afresh for random candidates until chance says
stop (:mod:`dpalgos.mechanisms.random_stopping`), at a third of ε each. Pure ε-DP; noise ∝ τ, the radius
within which users' losses lie of their mean: B√(log(2Kn/α) / (2m)) for m rows each. ``rule="exponential"``:
the exponential mechanism on s_k, moved by at most B/n by one user; noise ∝ B/n. It is better until m is some
thousands: the first pays 24τ/n and a larger logarithm.

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public.
Public: the candidates, B = ``loss_bound``, τ = ``concentration_radius``. Users count once each.

Departure: Lemma 1's radius, (B/2)√(log(2Kn/α)/m), is √2 too small; the caller gives it.

Reference: Levy et al., Learning with User-Level Privacy, Algorithm 5, Theorem 7.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.accounting.calibration import NoisePlan, least_noise, selections
from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError
from dpalgos.mechanisms.private_range import count_bins
from dpalgos.mechanisms.random_stopping import SCORE_FACTOR, select_by_random_stopping
from dpalgos.mechanisms.sensitivity import interval
from dpalgos.mechanisms.top_k import exponential_mechanism
from dpalgos.mechanisms.winsorized_mean import FINE_WINDOW, PRINTED_WINDOW, repeated_winsorized_means
from dpalgos.params import checked, choice, positive
from dpalgos.release.checks import LARGEST_BOUND, check_probability
from dpalgos.release.declared import lemma
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.users import UserRows
from dpalgos.typing import FloatArray, IntArray
from dpalgos.user_level.aggregation import UserLevelParams
from dpalgos.user_level.first_order import LINEAR_LOSSES

_CANDIDATES_AT_ONCE = 16


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


@dataclass(frozen=True, kw_only=True)
class UserLevelSelectionParams(UserLevelParams):
    """Keywords of :func:`user_level_selection`."""

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

    @property
    def stop_probability(self) -> float:
        """γ = α / (5K)."""
        return self.miss_probability / (5 * len(self.candidates))


@lemma("B/n")
def loss_sensitivity(loss_bound: float, n_users: float) -> FloatArray:
    """Return B/n, for mean losses in [0, B]: a user of no loss against one of the largest.

    With random stopping, a score is a winsorized mean that is ε/3-DP by its own releases, for any losses.
    """
    return np.asarray(interval(loss_bound, n_users))


CHOICE = Release("choice", loss_sensitivity)


@register(
    title="Selection over users",
    order=33,
    task="linear_regression",
    relation=Relation.USER,
    one_replicate=True,
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
    releases=(CHOICE,),
    forms={"exponential": Form(keywords={"rule": "exponential"}, calibrations=("tight", "paper"))},
)
def user_level_selection(
    sample: Sample, params: UserLevelSelectionParams, transcript: Transcript
) -> FloatArray:
    """Return the chosen candidate, (d, 1)."""
    candidates = np.array(params.candidates)
    if candidates.shape[1] != sample.n_features:
        raise InputError(
            f"candidates must have one number per column of X ({sample.n_features}), got "
            f"{candidates.shape[1]}"
        )
    losses = mean_losses(params.users(sample), params)
    select = _by_exponential_mechanism if params.rule == "exponential" else _by_random_stopping
    return np.asarray(candidates[select(transcript, losses, params)].T)


def _by_exponential_mechanism(
    transcript: Transcript, losses: FloatArray, params: UserLevelSelectionParams
) -> IntArray:
    """Return the candidate chosen by mean losses of users (n, K), (1,)."""
    epsilon = params.epsilon
    if params.calibration == "tight":
        plan = NoisePlan(epsilon, params.delta, {CHOICE.label: selections(epsilon)})
        epsilon = least_noise(plan).epsilon_of(CHOICE.label)
    return exponential_mechanism(
        transcript,
        CHOICE,
        -losses.mean(axis=0)[:, None],
        sensitivity=loss_sensitivity(params.loss_bound, float(len(losses))),
        epsilon=epsilon,
    )


def _by_random_stopping(
    transcript: Transcript, losses: FloatArray, params: UserLevelSelectionParams
) -> IntArray:
    """Return the candidate chosen by random stopping, (1,), and note its released loss."""
    window = PRINTED_WINDOW if params.calibration == "paper" else FINE_WINDOW
    window, each = window.times(params.concentration_radius), params.epsilon / SCORE_FACTOR
    n_bins = count_bins(params.loss_bound, window.bin_width)
    params.check_range(len(losses), n_bins, each / 2, 1 / params.stop_probability)

    def scores(candidates: IntArray, noise: Noise) -> FloatArray:
        return repeated_winsorized_means(
            losses, candidates, noise, bound=params.loss_bound, window=window, epsilon=each / 2
        )

    chosen, loss = select_by_random_stopping(
        transcript,
        CHOICE,
        losses.mean(axis=0)[:, None],
        scores,
        score_epsilon=each,
        stop_probability=params.stop_probability,
    )
    transcript.note("mean loss of the chosen candidate", loss)
    return np.asarray(chosen.astype(np.int64))


def mean_losses(users: UserRows, params: UserLevelSelectionParams) -> FloatArray:
    """Return each user's mean truncated loss of each candidate, (n_users, K)."""
    candidates, value = np.array(params.candidates), LINEAR_LOSSES[params.loss].value
    losses = np.empty((users.n_users, len(candidates)))
    for start in range(0, len(candidates), _CANDIDATES_AT_ONCE):
        some = slice(start, start + _CANDIDATES_AT_ONCE)
        each = np.stack([value(users.predictors(coef), users.y) for coef in candidates[some]], axis=1)
        # Fmin: what is not a number counts as the largest loss.
        losses[:, some] = users.means(np.maximum(np.fmin(each, params.loss_bound), 0.0))
    return losses
