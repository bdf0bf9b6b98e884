"""The private sparse mean (paper A, Algorithm 3.3: Algorithm 3.2, "peeling", on the truncated mean).

    m = (1/n) Σ_i Π_R(x_i),   Π_R clips every entry to [−R, R]
    S = the s coordinates of largest |m_j| + noise
    m̂_S = m_S + noise,   m̂ = 0 elsewhere

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``value_bound`` R, ``sparsity`` s,
``selection_bound``.

Why it is private. Replacing a row moves every entry of m by at most λ = 2R/n (:func:`entry_sensitivity`,
attained by the rows R·1 and −R·1), hence every |m_j| too. The selection and the release of the s selected
entries both use m, and both are charged; given the published S, the s entries move by √s λ in ℓ2.

Calibrations
    ``tight``: S by one Gumbel vector, s events of bounded range; values with Gaussian noise. A share f of ρ
    goes to the selection; then all noise is scaled down to what the accountant just proves.
    ``paper``: s rounds of Laplace noise and Laplace noise on the values, b = λ · 2 √(3 s log(1/δ)) / ε. The
    lemma cited for it needs ε ≤ .5, δ ≤ .011, s ≥ 10 (``diagnostics["conditions"]`` says when they fail);
    the certificate does not use it: zCDP proves (5/24) ε² / log(1/δ), .3555 at (.5, 1e-5), for every s.

``selection_bound`` τ < R (tight only) selects by the mean of the entries truncated to ±τ, whose entries move
by 2τ/n only. Where the noise around a zero mean is symmetric and unimodal, a small mean μ shows as
μ P(|x| < τ), which falls more slowly than τ does, so that nothing is lost for small means, while large ones
stay near τ; about two standard deviations is a good level. With skewed noise the truncated mean of a null
coordinate is not zero, so the default is R, as printed.

Post-processing, free: ``shrinkage="james_stein"`` of the s released values by their known noise level;
``pruning="noise_level"`` sets to zero the values that noise alone explains (:func:`prune`).

References
----------
Cai, Wang & Zhang, The Cost of Privacy, Algorithms 3.2 and 3.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise_factor
from dpalgos.accounting.events import BoundedRangeEvent, Event, GaussianEvent
from dpalgos.catalog import Neighbors, register
from dpalgos.errors import InputError
from dpalgos.mechanisms.checks import check_how_many
from dpalgos.mechanisms.clipping import truncate
from dpalgos.mechanisms.peeling import peeling, printed_multiplier
from dpalgos.mechanisms.shrinkage import james_stein
from dpalgos.mechanisms.top_k import SparseRelease, gumbel_top_k, multipliers, selected_l2_sensitivity
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.params import PrivateParams, choice, count, positive
from dpalgos.sample import Sample
from dpalgos.typing import FloatArray

_SELECTION_SHARE = 0.6  # where selection and values see the same truncation


@dataclass(frozen=True, kw_only=True)
class DPSparseMeanParams(PrivateParams):
    """Keywords of :func:`dp_sparse_mean`."""

    value_bound: float = positive("R: every entry is truncated to ±R")
    sparsity: int = count("s, number of non-zero entries of the answer")
    selection_bound: float | None = positive(
        "select by entries truncated to ± this bound, at most value_bound; None: value_bound",
        default=None,
        optional=True,
    )
    shrinkage: str | None = choice(
        "'james_stein' (with the known noise level) or None", ("james_stein", None), default=None
    )
    pruning: str | None = choice(
        "'noise_level': drop values that noise alone explains; or None", ("noise_level", None), default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection_bound is None:
            return
        if self.calibration == "paper":
            raise InputError(
                "selection_bound must be None for calibration='paper', which prints no such form, "
                f"got {self.selection_bound!r}; use calibration='tight'"
            )
        if self.selection_bound > self.value_bound:
            raise InputError(
                f"selection_bound must be at most value_bound = {self.value_bound:g}, "
                f"got {self.selection_bound!r}; leave it out to select by the same truncation"
            )


def entry_sensitivity(value_bound: float, n_rows: FloatArray) -> FloatArray:
    """Return the sensitivity 2R/n of every entry of the mean of entries in [−R, R]: rows R·1 and −R·1."""
    return np.asarray(2 * value_bound / n_rows)


def witnesses(params: DPSparseMeanParams, d: int, published: Sequence[FloatArray]) -> dict[str, Neighbors]:
    """Return the neighbours R·1 and −R·1, which move every entry by its sensitivity."""
    row, response = np.full((1, d), params.value_bound), np.zeros(1)
    both = (row, response, -row, response)
    return {"mean: selection": both, "mean: values": both}


@register(
    name="dp_sparse_mean",
    title="Private sparse mean",
    order=10,
    task="mean",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.3",
    summary="The largest entries of the truncated mean, selected and released with noise.",
    parameters=DPSparseMeanParams,
    example={"value_bound": 1.0, "sparsity": 2},
    witnesses=witnesses,
)
def dp_sparse_mean(sample: Sample, params: DPSparseMeanParams, transcript: Transcript) -> FloatArray:
    """Return the sparse mean, (d, R)."""
    check_how_many("sparsity", params.sparsity, sample.n_features)
    means = sample.means(truncate(sample.X, params.value_bound))
    sensitivity = entry_sensitivity(params.value_bound, sample.n_rows)
    release = _selected_by_gumbel if params.calibration == "tight" else _peeled_as_printed
    released, noise_std = release(sample, means, sensitivity, params, transcript)
    values = released.values
    if params.shrinkage == "james_stein":
        values = james_stein(values, noise_std**2)
    if params.pruning == "noise_level":
        values = values * (prune(released.values, noise_std) != 0)
    return SparseRelease(support=released.support, values=values, n_features=sample.n_features).dense()


def prune(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set to zero what noise of a known level alone explains: free post-processing.

    Parameters
    ----------
    values : (k, R) array
        Released values.
    noise_std : float or (R,) array
        Standard deviation of their noise; public.

    Returns
    -------
    (k, R) array
        Values above noise_std · √(2 log(10 k)) in magnitude, zeros for the others.
    """
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )


def unmet_conditions(epsilon: float, delta: float, sparsity: int) -> str:
    """Return which conditions of the peeling lemma (Dwork, Su & Zhang) fail; empty if none does."""
    conditions = {
        "epsilon <= 0.5": epsilon <= 0.5,
        "delta <= 0.011": delta <= 0.011,
        "s >= 10": sparsity >= 10,
    }
    failed = [name for name, holds in conditions.items() if not holds]
    if not failed:
        return ""
    return f"the peeling lemma needs {', '.join(failed)}; the certificate is by zero-concentrated DP instead"


def _selected_by_gumbel(
    sample: Sample,
    means: FloatArray,
    sensitivity: FloatArray,
    params: DPSparseMeanParams,
    transcript: Transcript,
) -> tuple[SparseRelease, FloatArray]:
    scores, score_sensitivity, share = means, sensitivity, _SELECTION_SHARE
    if params.selection_bound is not None:
        scores = sample.means(truncate(sample.X, params.selection_bound))
        score_sensitivity = entry_sensitivity(params.selection_bound, sample.n_rows)
        share = _SELECTION_SHARE * float(np.sqrt(params.selection_bound / params.value_bound))
    selection, release = planned_multipliers(params.epsilon, params.delta, params.sparsity, share)
    support = gumbel_top_k(
        transcript,
        scores,
        sensitivity=score_sensitivity,
        noise_multiplier=selection,
        k=params.sparsity,
        label="mean: selection",
        by_magnitude=True,
    )
    l2_sensitivity = np.asarray(selected_l2_sensitivity(sensitivity, params.sparsity))
    values = transcript.gaussian(
        np.take_along_axis(means, support, axis=0),
        l2_sensitivity=l2_sensitivity,
        noise_multiplier=release,
        label="mean: values",
    )
    released = SparseRelease(support=support, values=values, n_features=len(means))
    return released, np.asarray(release * l2_sensitivity)


def _peeled_as_printed(
    sample: Sample,
    means: FloatArray,
    sensitivity: FloatArray,
    params: DPSparseMeanParams,
    transcript: Transcript,
) -> tuple[SparseRelease, FloatArray]:
    transcript.note("conditions", unmet_conditions(params.epsilon, params.delta, params.sparsity))
    printed = printed_multiplier(params.epsilon, params.delta, params.sparsity)
    released = peeling(
        transcript,
        means,
        linf_sensitivity=sensitivity,
        sparsity=params.sparsity,
        noise_multiplier=printed,
        label="mean",
    )
    return released, np.asarray(np.sqrt(2) * printed * sensitivity)


@lru_cache(maxsize=4096)
def planned_multipliers(
    epsilon: float, delta: float, sparsity: int, selection_share: float
) -> tuple[float, float]:
    """Return the least multipliers of a selection of s and the release of their values that are (ε, δ)-DP."""
    selection, release = multipliers(concentrated_rho(epsilon, delta), sparsity, selection_share)

    def planned(factor: float) -> list[Event]:
        return [
            BoundedRangeEvent(label="", epsilon=2 / (factor * selection), sensitivity=1.0, count=sparsity),
            GaussianEvent(label="", noise_multiplier=factor * release, l2_sensitivity=1.0),
        ]

    factor = least_noise_factor(planned, epsilon, delta)
    return factor * selection, factor * release
