"""Private generalized linear models by whitening first and then a few clipped Newton-like steps (ours).

    W = M_xx^(−1/2),  M = the released second moments of clipped rows z = [x, 1]     (whitening)
    θ ← θ + η (H(θ) + λ I)⁻¹ ( mean_i clip(u_i (y_i − ψ'(u_i'θ))', C) + noise ),  u_i = W x_i   (T steps)
    β̂ = W θ̄,  θ̄ a combination of the last six steps, shrunk by James–Stein

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Needs no bound on rows, responses or
coefficients: a row counts by its score, clipped to a level that is public or itself released. Columns should
be in public units in which they are of order one, as a quarter of the width of their bounds is.

Why it is private. Everything is Gaussian but for few rows, so that with μ = μ(ε, δ) a release with share f of
μ² and ℓ2 sensitivity Δ gets noise Δ / (μ √f), and shares that sum to 1 compose to exactly (ε, δ). W, H, θ,
the levels and the shrinkage use released quantities only. All releases, with their shares of what the forms
below leave:

    quantity                              sensitivity  share     made in             forms
    rows above a level                    1            .015 left  search_level       all
    scores above a level                  1            .07 left  search_level        all
    responses above a level               1            .02 left  search_level        poisson
    mean response                         c/n, √2/n    to .6     private_constant    constant and poisson
    mean exposure                         1/n          to .2     private_typical_offset  offset and poisson
    mean logarithm                        to 10.4/n    of ε      private_constant    few rows and poisson
    values above a candidate center       √(d − 1)     to .08    released_medians    many rows
    second moments                        √2 C_A²/n    .12 left  private_whitening   all
    preconditioned score                  2C/n, √2 C²/n  the rest  scored_steps      all
    second moments in public coordinates  √2 d/n       named     public_coordinates  public rows
    those of intervals.regression         its own      .152      note_interval       interval and not least
    those of intervals.regression         its own      .567      note_interval       least squares

Z'Z/n, of rows clipped to C_A: orthogonal rows of that norm. Scores: means of clip(u_i r_i', C), opposite ones
of norm C; shares grow by 1.4 from each step to the next, but among the first five. Each of the first four may
whiten the rows again in its place, as released moments decide: moments of rows u = W x clipped to a released
C, orthogonal rows of that norm, with the same noise for a sensitivity of 1
(:mod:`dpalgos.mechanisms.preconditioned.gradient_steps`). A level is searched by counts of equal shares, at
each of the first five steps. Responses: in [0, c], or indicators of classes. Second moments of bounded
responses take .1 left, scores above a level .1 left of Gaussian ones, and .4/d of responses without a bound
if that is more: among 64 candidates a count that is mistaken makes noise ten times as large. An interval
takes .067 in logistic models.

What follows is heuristics, and affects accuracy only. H(θ) is the curvature of the loss if rows were normal
with the released moments (`dpalgos.models.normal_curvature`), corrected where released scores say otherwise
(`dpalgos.models.secant_curvature`). λ is √d times the noise's standard deviation, times ¾ for events, 1½ for
counts with an intercept and ½ in other models, lest noise throw θ far; 0 for Gaussian responses. Those of
events step to the end, η = 1, others .85 of the way, and with unbounded ψ'' (Poisson) at most 1 far. There
the first θ predicts about the lower end of the power of two in which the released upper quartile of the
responses lies, by a ridge regression of 1 on x. The combination (`dpalgos.steps.denoising.combined_steps`) is
of what the last six steps would lead to, the one whose released scores are small. T is 8, and 10 in
logistic models, one more with each doubling of nμ over 1,000 √d, up to 14: fewer end too early where events
are rare. From nμ = 400 √d on, with an intercept and no interval, these clip only what is orthogonal to the
constant in a score, to C in all, lest the rate of few events suffer; H is then the mean of both ends of a
step.

With ``intercept`` columns are taken about released centers where nμ ≥ 100 √d, of what the constant leaves, as
:mod:`dpalgos.mechanisms.private_origin` has it for linear models; the answer is for the columns as given.

With ``intercept`` James–Stein shrinks slopes alone, orthogonal to the constant, by 1.5 times its factor.
Models of counts are about a released mean (:mod:`dpalgos.mechanisms.private_constant`), with more of μ² the
fewer rows there are, and take twelve shorter steps from 1.6 times that. Steps that moved far count less, in
other models, too. Where nμ < 15 √d (25 √d for counts) the answer is the constant
alone, in all families: its one to three numbers have Laplace noise and share ε, not μ², in the ratio of .6
(mean response, c/n or 2/n) to .4 (mean logarithm, of counts) to .25 (mean exposure, if there is an offset).

Clip levels: about k norms lie above the level, k = 100 (√d/μ) (nμ/489)^(−.9) for the rows, but at least four
times the noise of their count, and 16 √D/μ for the scores of D = d (or d K) coordinates: a row beyond the
level biases the mean by about C/n, noise moves it by 2C√D/(nμ). Each is found by a binary search of noisy
counts.

``offset_bounds``: the first column of X is an offset, for rates: cut to public bounds and added to x'β. It is
no covariate, but a part of the row like y: a score (y − ψ'(o + u'θ)) u is clipped whatever o is, and so are
the parts of an interval. Counts start at the released mean over the released mean of e^o; its coefficient
of 1 is a part of the answer.

``public_X``, public rows without responses (:mod:`dpalgos.mechanisms.public_coordinates`): one more release
asks whether they have the shape of X; if so, z = [A x, 1]. Without a ``public_share`` only the Gaussian
family asks: in eight logistic settings the right shape changed the excess loss by factors of .89 to 1.54.

An interval (no classes) leaves schedule and levels as they are, on what it does not take, and is centered at
one Newton step from the last points, not shrunk. Below nμ = 30 √d there is none.

What to expect: directions of X whose second moment lies below the noise floor are not resolved at this ε,
shrink towards zero and are counted in the diagnostics. If k exceeds a tenth of the rows, the answer may be
worse than a constant.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Neighbors, register
from dpalgos.intervals.preconditioned_models import PreconditionedGLMParams
from dpalgos.mechanisms import public_coordinates as public
from dpalgos.mechanisms.clip_levels import GLMLevels, with_one
from dpalgos.mechanisms.column_counts import MEDIANS
from dpalgos.mechanisms.preconditioned.scored_steps import SCORE, scored_steps
from dpalgos.mechanisms.private_constant import (
    CONSTANT,
    EXPOSURE,
    LOGARITHM,
    RESPONSES_ABOVE,
    ConstantNoise,
    private_constant,
    private_typical_offset,
)
from dpalgos.mechanisms.private_origin import private_columns
from dpalgos.mechanisms.private_whitening import private_whitening
from dpalgos.models.families import Family, check_labels
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.denoising import ReleasedSteps, combined_steps, james_stein, shrunk_slopes
from dpalgos.typing import FloatArray

_PART_STEP, _N_COMBINED = 0.85, 6
N_WHITENINGS = 4  # that may stand in the place of first steps
_N_CENTERED = 3  # steps at which an interval is centered
_ABOVE_MEAN, _LEAST_START = 1.6, 0.6  # of counts, where steps start
_RIDGE, _EVENTS_RIDGE, _COUNTS_RIDGE = 0.5, 0.75, 1.5
_LEAST_PART = 0.1  # of the way that a step goes
_ENTRY_VARIANCE = 1 / 400  # the whitening is right to about 5 %
_OWN_VARIANCE, _OWN_OF_COUNTS = 0.02, 0.05  # of steps that are not linear


def witnesses(
    params: PreconditionedGLMParams, d: int, published: Sequence[FloatArray]
) -> dict[str, Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity; far above any clip level.

    Scores attain theirs at the first step: opposite rows of the same label at θ = 0, or with a response that
    no prediction comes near.
    """
    if params.offset_bounds is not None:
        others = replace(params, offset_bounds=None)
        zero, constant = np.zeros(1), np.eye(d)[-1:]
        found = witnesses(others, d - 1, published)
        apart: dict[str, Any] = {
            label: tuple(np.insert(rows, 0, 0, axis=1) if rows.ndim == 2 else rows for rows in four)
            for label, four in found.items()
        }
        return {**apart, EXPOSURE: (1e6 * np.eye(1, d) + constant, zero, 0 * constant, zero)}
    first, second, zero = 1e6 * np.eye(1, d), 1e6 * np.eye(2, d)[1:], np.zeros(1)
    wide = np.full((1, d), 1e20)
    unbounded = not np.isfinite(params.made().residual_bound)
    row, label = (1e-5 * first, np.full(1, 1e30)) if unbounded else (first, np.ones(1))
    return {
        MEDIANS: (wide, zero, -wide, zero),
        "rows above a level": (first, zero, 0 * first, zero),
        "second moments": (first, zero, second, zero),
        RESPONSES_ABOVE: (first, label, first, zero),
        CONSTANT: (first, label, first, zero),
        LOGARITHM: (first, label, first, zero),
        "scores above a level": (row, label, 0 * row, label),
        SCORE: (row, label, -row, label),
        **params.shared_witnesses(d),
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
        "constant": Form(keywords={"intercept": True}),
        "constant, offset": Form(keywords={"intercept": True, "offset_bounds": (-1.0, 0.5)}),
        "interval": Form(keywords={"interval": 0.95}),
        "interval, offset": Form(keywords={"interval": 0.95, "offset_bounds": (-1.0, 0.5)}),
        "interval, least squares": Form(keywords={"interval": 0.95, "interval_target": "least squares"}),
        "public rows": Form(keywords=public.PUBLIC_EXAMPLE),
    },
    public="units in which columns are of order one; n_classes where the family has classes; public_X if any",
)
def preconditioned_glm(sample: Sample, params: PreconditionedGLMParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R), or (d, K, R) with classes."""
    sample.check_response()
    sample = params.covariates(sample)
    mu, d, family = gaussian_mu(params.epsilon, params.delta), sample.n_features, params.made()
    n_rows = float(sample.n_rows.min())
    constant = params.is_constant(mu * n_rows, d)
    shape = None if constant else params.public_shape(sample, mu)
    reserved = params.interval_shares(n_rows, d, family)
    budget = params.budget({} if constant else reserved, shape, mu * n_rows, d)
    origin = np.zeros((d, *family.classes, sample.n_replicates))
    offset = np.full(sample.n_replicates, np.mean(params.offset_bounds or 0.0))
    noise = ConstantNoise(transcript, budget, alone=constant)
    if CONSTANT in budget.shares:
        origin[-1] = private_constant(noise, sample, family)
    if EXPOSURE in budget.shares:
        offset = private_typical_offset(noise, sample)
    if params.intercept:
        origin[-1] -= offset
    if constant:
        transcript.note("unresolved_directions", np.full(sample.n_replicates, d - 1.0))
        if params.interval is not None:
            params.note_too_few(transcript, sample)
            params.note_known_interval(transcript)
        return family.identified(params.coefficients(origin))
    levels = GLMLevels(sample, family, budget, transcript)
    coordinates = public.public_coordinates(transcript, sample, params, shape, budget)
    coordinates = private_columns(transcript, sample, budget).before(coordinates)
    whitening = private_whitening(
        transcript,
        sample,
        with_one,
        levels.rows(coordinates),
        noise_multiplier=budget.gaussian_multiplier("moments"),
        coordinates=coordinates,
    )

    scores = WhitenedScores(sample, family, whitening.matrix, origin, offset)
    theta, one = np.zeros(scores.shape), whitening.one
    if params.keeps_constant(mu * n_rows, d):
        scores.keep_constant(one)
    if params.starts_at_mean:
        typical = origin[-1] + offset
        theta = one * (np.log(np.maximum(_ABOVE_MEAN * np.exp(typical), _LEAST_START)) - typical)
    elif params.needs_start:
        one, _ = whitening.ridge_start()
        start = np.linalg.solve(whitening.matrix, one)[..., 0].T
        theta = start * (np.log(levels.typical_response()) - offset)
    ridge, own = (_COUNTS_RIDGE, _OWN_OF_COUNTS) if params.starts_at_mean else (_RIDGE, _OWN_VARIANCE)
    step_size = _PART_STEP
    if params.takes_full_steps:
        ridge, step_size = _EVENTS_RIDGE, 1.0
    n_steps = params.n_steps(mu * n_rows, d)
    made = scored_steps(
        transcript, budget, scores, whitening, levels, theta, n_steps, step_size, ridge, N_WHITENINGS
    )
    steps, full, scores, whitening = made
    transcript.note("unresolved_directions", whitening.unresolved)
    one = whitening.one
    if params.interval is not None:
        middle = (whitening.mean_row * steps.end).sum(axis=0) + origin[-1] + offset
        params.note_interval(transcript, budget, scores, whitening, steps.last(_N_CENTERED), middle)
        params.note_known_interval(transcript)
    lost = ridge * np.sqrt(d) * (params.intercept and not family.is_linear)
    combined, variance = _combined(full, family, step_size, lost, own)
    if params.intercept and not family.classes:
        combined = shrunk_slopes(combined, variance[0], one)
    else:
        combined = james_stein(combined, variance[0])
    answer: FloatArray = combined.reshape(scores.shape)
    return family.identified(params.coefficients(scores.coef(answer)))


def _combined(
    full: ReleasedSteps, family: Family, step_size: float, lost: float, own_variance: float
) -> tuple[FloatArray, FloatArray]:
    """Return the combination (d, R) of the last steps, and the variance that noise leaves in it.

    A step goes the part h/(h + λ) of the way, 1 − ``lost`` times its noise: of noise in earlier ones the rest
    stays.
    """
    taken = np.isfinite(full.noise_stds)
    known = np.maximum(1 - lost * np.sqrt(full.variances), _LEAST_PART) * taken
    before = np.zeros(known.shape[1])
    for part, variance in zip(known[:-_N_COMBINED], full.variances, strict=False):
        before = (1 - step_size * part) ** 2 * before + step_size**2 * variance
    return combined_steps(
        full.last(_N_COMBINED),
        _PART_STEP if family.is_linear or family.classes else 1.0,
        known[-1:].T,
        before,
        entry_variance=_ENTRY_VARIANCE,
        own_variance=own_variance * (not family.is_linear),
    )
