"""Private generalized linear models by whitening first and then a few clipped Newton-like steps (ours).

    W = M_xx^(−1/2),  M = the released second moments of clipped rows z = [x, 1]     (whitening)
    θ ← θ + (H(θ) + λ I)⁻¹ ( mean_i clip(u_i (y_i − ψ'(u_i'θ))', C) + noise ),  u_i = W x_i   (T steps)
    β̂ = W θ̄,  θ̄ the share-weighted mean of the last iterates, shrunk by James–Stein

H(θ) is the curvature of the loss if rows were normal with the released moments
(`dpalgos.models.normal_curvature`), λ = ½ √d times the noise's standard deviation, so that noise alone
cannot throw θ far (0 for Gaussian responses, which have no unit). For families without a bound on ψ''
(Poisson) the first θ predicts the released upper quartile of the responses everywhere, and steps are at
most 1 long.

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Needs no bound on rows, responses or
coefficients: a row counts by its score, clipped to a level that is public or itself released, so that heavy
counts are neither cut nor bounded. What should be public are *units* in which columns are of order one; they
affect accuracy only.

Why it is private. Everything is Gaussian, so that with μ = μ(ε, δ) a release with share f of μ² and ℓ2
sensitivity Δ gets noise Δ / (μ √f), and shares that sum to 1 compose to exactly (ε, δ):

    quantity                                          sensitivity    share
    how many rows exceed a level                      1              .02 in all (``clip="private"``)
    how many scores exceed a level                    1              .1 in all (``clip="private"``)
    how many responses exceed a level                 1              .02 in all (unbounded ψ'')
    Z'Z/n, rows of Z clipped to C_A                   √2 C_A²/n      .15
    mean of clip(u_i r_i', C), step t                 2C/n           the rest, growing geometrically

(the fourth: orthogonal rows of norm C_A; the last: opposite scores of norm C). W, H, θ, the levels and the
shrinkage use released quantities only.

The clip levels
    ``"private"`` (default): about k norms lie above the level, k = 100 (√d/μ) (nμ/489)^(−1/4) for the rows
    and 16 √D/μ for the scores of D = d (or d K) coordinates: a row beyond the level biases the mean by about
    C/n, noise moves it by 2C√D/(nμ). Each is found by a binary search of noisy counts, the scores' at the
    first step and, more finely, at the second.
    ``"rule"``: C_A = 2 √(d + 1), C = 1.5 √(d v) (nμ/489)^(1/4), v the variance of a response at θ = 0: for
    columns and responses of order one.
    a pair ``(C_A, C)`` of public levels.

``public_X``, public rows without responses (:mod:`dpalgos.mechanisms.public_coordinates`): one more release,
of sensitivity √2 d/n and share ``public_share``, asks whether they have the shape of X; if so, z = [A x, 1].
Without a ``public_share`` only the Gaussian family asks: in eight logistic settings (200 rows of four tables,
ε = .5 and 1) the right shape changed the excess loss by factors from .89 to 1.54.

Interval (``interval=.95``; no classes): four steps with two fifths of what is left, and then a Newton step
whose score gets the rest, on a curvature that is released, too (:mod:`dpalgos.intervals.newton`); scores are
clipped at twice the level, and nothing is shrunk.

What to expect: directions of X whose second moment lies below the noise floor are not resolved at this ε and
shrink towards zero; ``diagnostics["unresolved_directions"]`` counts them. With so few rows that k exceeds a
tenth of them, the answer may be worse than a constant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Neighbors, register
from dpalgos.intervals.bounded_scores import check_has_interval
from dpalgos.intervals.half_widths import CURVATURE, SCORE_MOMENTS, IntervalParams, interval_shares
from dpalgos.intervals.newton import CURVATURE_COUNTS, CURVATURE_SHARES, last_step
from dpalgos.intervals.tails import TAIL
from dpalgos.mechanisms.clip_levels import GLMLevels, with_one
from dpalgos.mechanisms.private_whitening import Whitening, private_whitening
from dpalgos.mechanisms.public_coordinates import (
    PUBLIC_EXAMPLE,
    PUBLIC_SHAPE,
    PublicRowsParams,
    PublicShape,
    public_coordinates,
    public_witness,
)
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.models.normal_curvature import newton_step
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.params import checked, choice, count
from dpalgos.release.checks import check_clip
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.denoising import james_stein, shrinkage_choice
from dpalgos.typing import FloatArray

_ROW_SHARE, _SCORE_SHARE, _START_SHARE, _MOMENT_SHARE = 0.02, 0.1, 0.02, 0.15
_N_STEPS, _GROWTH, _N_AVERAGED = 6, 1.4, 3
_N_PILOT_STEPS, _PILOT_SHARE, _WIDENED = 4, 0.4, 2.0  # with an interval


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedGLMParams(PublicRowsParams, IntervalParams):
    """Keywords of :func:`preconditioned_glm`."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)
    clip: str | tuple[float, float] = checked(
        "'private', 'rule', or a pair of public levels (rows, scores)",
        partial(check_clip, of="scores"),
        default="private",
    )
    shrinkage: str | None = shrinkage_choice("james_stein")
    unshrunk_with_interval: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made()
        check_has_interval(self.made(), self.interval)

    def made(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return get_family(self.family, n_classes=self.n_classes)

    @property
    def needs_start(self) -> bool:
        """Whether the curvature is unbounded, so that steps from zero may overshoot."""
        return not np.isfinite(self.made().curvature_bound)

    @property
    def n_steps(self) -> int:
        """How many steps on the curvature among normal rows."""
        return _N_STEPS if self.interval is None else _N_PILOT_STEPS

    @classmethod
    def takes_public_rows(cls, settings: Mapping[str, Any]) -> bool:
        """Return whether the family is the Gaussian one, or a ``public_share`` is named."""
        return settings.get("family", "gaussian") == "gaussian" or settings.get("public_share") is not None

    def budget(self, shape: PublicShape | None = None) -> SplitBudget:
        """Return how ε is spent; a part of it on whether the shape of public rows is right."""
        shares = {"moments": _MOMENT_SHARE}
        if self.clip == "private":
            shares |= {"rows": _ROW_SHARE, "scores": _SCORE_SHARE}
        if self.needs_start:
            shares["start"] = _START_SHARE
        if self.interval is not None:
            shares |= {**interval_shares(self.interval), **CURVATURE_SHARES}
            shares["last score"] = (1 - _PILOT_SHARE) * (1 - sum(shares.values()))
        steps = (1 - sum(shares.values())) * step_weights(self.n_steps)
        shares |= {f"step {t}": float(share) for t, share in enumerate(steps)}
        return SplitBudget(epsilon=self.epsilon, delta=self.delta, shares=self.shares_with(shape, shares))


def step_weights(n_steps: int) -> FloatArray:
    """Return the last ``n_steps`` steps' shares of what they spend together."""
    weights = _GROWTH ** np.arange(n_steps)
    return np.asarray(weights / weights.sum())


def witnesses(
    params: PreconditionedGLMParams, d: int, published: Sequence[FloatArray]
) -> dict[str, Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity; far above any clip level.

    Scores attain theirs at the first step: opposite rows of the same label at θ = 0, or with a response that
    no prediction comes near.
    """
    first, last, zero = 1e6 * np.eye(1, d), 1e6 * np.eye(d)[-1:], np.zeros(1)
    unbounded = not np.isfinite(params.made().residual_bound)
    row, label = (1e-5 * first, np.full(1, 1e30)) if unbounded else (first, np.ones(1))
    return {
        PUBLIC_SHAPE: public_witness(params, d),
        "rows above a level": (first, zero, 0 * first, zero),
        "second moments": (first, zero, last, zero),
        "responses above a level": (first, label, first, zero),
        "scores above a level": (row, label, 0 * row, label),
        "preconditioned score": (row, label, -row, label),
        CURVATURE_COUNTS: (first, zero, 0 * first, zero),
        CURVATURE: (first, zero, last, zero),
        SCORE_MOMENTS: (row, label, np.roll(row, -1), label),
        TAIL: (row, label, 0 * row, label),
    }


@register(
    title="Preconditioned Newton steps",
    order=51,
    task="glm",
    reference="ours; private whitening, then clipped Newton-like steps",
    summary="Whitens the rows privately, then takes a few clipped Newton-like steps; needs no bounds.",
    calibrations=("tight",),
    example={"family": "gaussian"},
    witnesses=witnesses,
    check_data=check_labels,
    forms={
        "public levels": Form(keywords={"clip": (2.0, 3.0)}),
        "levels by rule": Form(keywords={"clip": "rule"}),
        "interval": Form(keywords={"interval": 0.95}),
        "public rows": Form(keywords=PUBLIC_EXAMPLE),
    },
    public="units in which columns are of order one; n_classes where the family has classes; public_X if any",
)
def preconditioned_glm(sample: Sample, params: PreconditionedGLMParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R), or (d, K, R) with classes."""
    shape = params.public_shape(sample, gaussian_mu(params.epsilon, params.delta))
    family, budget, n_rows = params.made(), params.budget(shape), sample.n_rows
    levels = GLMLevels(sample, params.clip, family, budget, transcript)

    sample.check_response()
    coordinates = public_coordinates(transcript, sample, params, shape, budget)
    whitening = private_whitening(
        transcript,
        sample,
        with_one,
        levels.rows(coordinates),
        noise_multiplier=budget.gaussian_multiplier("moments"),
        coordinates=coordinates,
    )
    transcript.note("unresolved_directions", whitening.unresolved)
    center = _center(whitening)

    scores = WhitenedScores(sample, family, whitening.matrix)
    theta = np.zeros(scores.shape)
    if params.needs_start:
        constant = _predictor(family, levels.typical_response())
        theta = center * constant / np.maximum((center**2).sum(axis=0), 0.5)
    iterates, variances = [], []
    for t in range(params.n_steps):
        at = scores.at(theta)
        level = levels.scores(at, t)
        sensitivity = ball_mean_sensitivity(level, n_rows)
        multiplier = budget.gaussian_multiplier(f"step {t}")
        released = transcript.gaussian(
            at.clipped_mean(level).reshape(-1, sample.n_replicates),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="preconditioned score",
        )
        noise_std = multiplier * sensitivity
        # Gaussian responses have no unit, and a constant curvature.
        linear = np.isfinite(family.curvature_bound) and not np.isfinite(family.derivative_bound)
        ridge = 0 * noise_std if linear else np.sqrt(sample.n_features) / 2 * noise_std
        step, amplification = newton_step(family, theta, center, released.reshape(theta.shape), ridge)
        theta = theta + (_shortened(step) if params.needs_start else step)
        iterates.append(theta)
        variances.append((amplification * noise_std) ** 2)

    if params.interval is not None:
        at, level = scores.at(theta), _WIDENED * level
        sensitivity = ball_mean_sensitivity(level, n_rows)
        multiplier = budget.gaussian_multiplier("last score")
        released = transcript.gaussian(
            at.clipped_mean(level),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="preconditioned score",
        )
        return last_step(
            transcript,
            params.interval,
            family=family,
            scores=scores,
            theta=theta,
            score=released,
            score_std=transcript.noise_std(sensitivity, multiplier, sample.n_features),
            score_level=level,
            middle=(center * theta).sum(axis=0),
            mu=levels.mu,
            multiplier=budget.gaussian_multiplier,
        )

    # A full step forgets the iterate before it: the noises of the averaged ones are independent.
    weights = step_weights(_N_AVERAGED)
    averaged = np.einsum("t,t...->...", weights, np.array(iterates[-_N_AVERAGED:]))
    if params.shrinkage == "james_stein":
        variance = weights**2 @ np.array(variances[-_N_AVERAGED:])
        averaged = james_stein(averaged.reshape(-1, sample.n_replicates), variance).reshape(averaged.shape)
    return family.identified(np.einsum("rij,j...r->i...r", whitening.matrix, averaged))


def _center(whitening: Whitening) -> FloatArray:
    """Return the mean of the white rows, at most 1 long as their second moments say, (d, R)."""
    mean, coordinates = whitening.moments[:, :-1, -1:], whitening.coordinates
    if coordinates is not None:
        mean = np.linalg.solve(coordinates[:, :-1, :-1], mean)
    weight = np.maximum(whitening.moments[:, -1, -1], 0.1)  # of clipped rows, less than 1
    center = np.einsum("rij,rj->ir", whitening.matrix, mean[..., 0]) / weight
    return np.asarray(center / np.maximum(np.linalg.norm(center, axis=0), 1))


def _predictor(family: Family, mean: FloatArray) -> FloatArray:
    """Return u with ψ'(u) = ``mean`` (R,), by halving, (R,)."""
    low, high = np.full_like(mean, -50.0), np.full_like(mean, 50.0)
    for _ in range(60):
        middle = (low + high) / 2
        too_low = family.mean(middle[None])[0] < mean
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return np.asarray(high)


def _shortened(step: FloatArray) -> FloatArray:
    return np.asarray(step / np.maximum(np.linalg.norm(step, axis=0), 1))
