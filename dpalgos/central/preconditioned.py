"""Private regression by whitening first and then a few clipped, Newton-like steps (ours): all families.

    W = M_xx^(−1/2),  M = the released second moments of clipped rows z         (whitening)
    θ ← θ + η (H(θ) + λ I)⁻¹ ( mean_i clip(u_i (y_i − ψ'(u_i'θ))', C) + noise ),  u_i = W x_i   (T steps)
    β̂ = W θ̄,  θ̄ a combination of the steps, shrunk by James–Stein

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Needs no bound on rows, responses or
coefficients: a row counts by its score, clipped to a level that is public or itself released. Columns should
be in public units in which they are of order one, as a quarter of the width of their bounds is; this affects
accuracy only.

Why it is private. Everything is Gaussian but for few rows, so that with μ = μ(ε, δ) a release with share f of
μ² and ℓ2 sensitivity Δ gets noise Δ / (μ √f), and shares that sum to 1 compose to exactly (ε, δ). W, H, θ,
the levels and the shrinkage use released quantities only. ``RELEASES`` has all, with their shares of what an
interval leaves (:mod:`dpalgos.mechanisms.preconditioned.plan`); "left" is of what those of the origin leave.

Rows z are [x, y] of linear models, [x, 2y − 1] of events with an intercept, else [x, 1], clipped to C_A:
orthogonal rows of that norm. Scores: means of clip(u_i r_i', C), opposite ones of norm C. Each of the first
four steps may whiten the rows again in its place, as released moments decide
(:mod:`dpalgos.mechanisms.preconditioned.steps`): moments of rows u = W x clipped to a released C, orthogonal
rows of that norm, with the same noise for a sensitivity of 1. Levels are searched by five counts for rows,
and by four at each of the first seven steps.

What follows is heuristics, and affects accuracy only. With ``intercept`` z is taken about released centers
(:mod:`dpalgos.mechanisms.preconditioned.origin`); the answer is for the columns as given. Linear steps start
from the ridge regression of the released M; those of events from that of y less its released mean
(:mod:`dpalgos.mechanisms.preconditioned.constant`), over the curvature there, shrunk by what noise explains,
lest models of few events start far off; those of counts at .3 above that mean. Without an intercept those
of counts start where they predict about the lower end of the power of two in which the released upper
quartile of the responses lies, by a ridge regression of 1 on x.

θ̄ combines what all steps would lead to (:func:`dpalgos.steps.denoising.combined_steps`): the best weights
for their noise, and for what whitening and curvature do not know. James–Stein shrinks slopes, orthogonal to
the constant, by what noise explains, and what steps added to the constant of events and counts as much;
directions that a further whitening leaves unresolved have each their own factor.

Few rows: below nμ = 15 √d (25 √d of counts) models with an intercept have the constant alone: its one to
three numbers have Laplace noise and share ε, not μ², in the ratio of .6 (mean response, c/n or 2/n) to .4
(mean logarithm, of counts) to .25 (mean exposure, if there is an offset). Linear ones then take five steps at
public levels, from a start that is shrunk by what noise explains.

``offset_bounds``: the first column of X is an offset, for rates: cut to public bounds and added to x'β. It is
no covariate, but a part of the row like y: a score (y − ψ'(o + u'θ)) u is clipped whatever o is, and so are
the parts of an interval. Counts start at the released mean over the released mean of e^o; its coefficient
of 1 is a part of the answer.

Interval (:mod:`dpalgos.intervals.regression`, no classes): it leaves plan and levels as they are, on what it
does not take, and the answer, but that rows may be whitened again also in good units; it is centered at steps
that are not shrunk. Below nμ = 30 √d it takes nothing, and there is none.

What to expect: directions of X whose second moment lies below the noise floor stay near the start;
``diagnostics["unresolved_directions"]`` counts them. A direction in which only a few rows of huge leverage
differ (four of 16,599 in `elevators`) looks like one without: predictions for such rows are shrunk towards
zero. Below nμ = 14 a linear answer is mostly noise, and close to zero.

Reference: Kamath, Li, Singhal & Ullman (2019), Privately learning high-dimensional distributions (recursive
private preconditioning).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Neighbors, Published, Release, register, witnessed
from dpalgos.cautions import UNRESOLVED
from dpalgos.goodness import note_moments
from dpalgos.interval import FEW, Interval
from dpalgos.intervals.offsets import OffsetParams
from dpalgos.intervals.regression import (
    INTERVAL_RELEASES,
    RegressionIntervalParams,
    interval_of,
    interval_shares,
    interval_witnesses,
)
from dpalgos.mechanisms.clip_levels import search_level
from dpalgos.mechanisms.preconditioned.column_counts import MEDIANS, UNITS, released_medians
from dpalgos.mechanisms.preconditioned.constant import (
    CONSTANT,
    EXPOSURE,
    LOGARITHM,
    ConstantNoise,
    private_constant,
    private_typical_offset,
)
from dpalgos.mechanisms.preconditioned.levels import RESPONSES_ABOVE, Levels
from dpalgos.mechanisms.preconditioned.origin import (
    DISTANCE,
    MEANS,
    Origin,
    private_columns,
    private_origin,
)
from dpalgos.mechanisms.preconditioned.plan import FitPlan, plan_of
from dpalgos.mechanisms.preconditioned.steps import SCORE, Steps, released_steps
from dpalgos.mechanisms.preconditioned.whitening import MOMENTS, Whitening, WholeRows, private_whitening
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.models.white_rows import WhiteRows
from dpalgos.params import choice, count
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ROWS_ABOVE, SCORES_ABOVE, clip_factor
from dpalgos.steps.denoising import combined_steps, james_stein, shrunk_directions, signal_share
from dpalgos.typing import FloatArray

_ENTRY_VARIANCE = 1 / 200  # the whitening is right to 7 %
_OWN_VARIANCE = 0.02  # of steps that are not linear
_REACH = 5.0  # times √d: white rows of linear models beyond are shortened, and so are their responses
_LEAST_CURVATURE = 0.5  # that is counted with where rows are clipped, and of directions below the floor
_N_CENTERED = 3  # steps at which an interval is centered, where steps are not linear


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedParams(RegressionIntervalParams):
    """Keywords of :func:`preconditioned_regression`."""

    intercept: bool = choice("whether the last column of X is the constant 1", (False, True), default=False)

    def made(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return get_family("gaussian")


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedGLMParams(PreconditionedParams, OffsetParams):
    """Keywords of :func:`preconditioned_glm`."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_offset(self.made())
        self.check_family(self.made())

    def made(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return get_family(self.family, n_classes=self.n_classes)


def witnesses(params: PreconditionedParams, d: int, published: Published) -> list[Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity; far above any clip level.

    Scores attain theirs at the first step: opposite rows of the same label, or opposite responses that no
    prediction comes near.
    """
    if isinstance(params, PreconditionedGLMParams) and params.offset_bounds is not None:
        zero, constant = np.zeros(1), np.eye(d)[-1:]
        found = witnesses(replace(params, offset_bounds=None), d - 1, published)
        apart: list[Any] = [
            tuple(np.insert(rows, 0, 0, axis=1) if rows.ndim == 2 else rows for rows in four)
            for four in found
        ]
        return [*apart, (1e6 * np.eye(1, d) + constant, zero, 0 * constant, zero)]
    family = params.made()
    first, second, zero, large = 1e6 * np.eye(1, d), 1e6 * np.eye(2, d)[1:], np.zeros(1), np.full(1, 1e6)
    wide = np.full((1, d), 1e20)
    narrow = np.array([[*np.ones(d - 1), 1e-6]])
    far = np.array([[*np.full(d - 1, 1e20), 1e15]])  # from its last entry times any center
    row, label = (1e-5 * first, np.full(1, 1e30)) if family.has_counts else (first, np.ones(1))
    score = (first, 1e9 * large, first, -1e9 * large) if family.is_linear else (row, label, -row, label)
    return [
        (far, far[0, :1], narrow, narrow[0, :1]),
        (far, far[0, :1], -far, -far[0, :1]) if family.is_linear else (wide, zero, -wide, zero),
        (first, zero, -first, zero),
        (first, large, 0 * first, zero),
        *[(first, label, first, zero)] * 3,
        (first, large if family.is_linear else zero, 0 * first, zero),
        (first, zero, second, zero),
        (row, 1e9 * large if family.is_linear else label, 0 * row, zero),
        score,
        *interval_witnesses(d),
    ]


def _has_slopes(params: PreconditionedParams) -> bool | None:
    """Return whether there is more than the constant; of few rows with an intercept there may not be."""
    return True if params.made().is_linear or not params.intercept else None


RELEASES = witnessed(
    witnesses,
    Release(UNITS, "to .03", "sqrt(2)", private_origin, lambda _: None),
    Release(MEDIANS, "to .08", "√p", released_medians, lambda _: None),
    Release(MEANS, "to .06", "2R/n", private_origin, lambda _: None),
    Release(DISTANCE, ".008", "1", search_level, lambda _: None),
    Release(RESPONSES_ABOVE, "to .3", "1", search_level, lambda _: None),
    Release(CONSTANT, "to .6 for counts, to .1", "c/n, 1/n or √2/n", private_constant, lambda _: None),
    Release(LOGARITHM, "of ε", "to 10.4/n", private_constant, lambda _: None),
    Release(ROWS_ABOVE, ".015 left", "1", search_level, _has_slopes),
    Release(MOMENTS, ".1 left", "√2 C_A²/n", private_whitening, _has_slopes),
    Release(SCORES_ABOVE, ".058 left", "1", search_level, _has_slopes),
    Release(SCORE, "the rest", "2C/n, √2 C²/n", released_steps, _has_slopes),
    *INTERVAL_RELEASES,
    Release(EXPOSURE, "to .2", "1/n", private_typical_offset, lambda _: None),
)


_INTERVALS = {
    "interval": Form(keywords={"interval": 0.95}),
    "interval, least squares": Form(keywords={"interval": 0.95, "interval_target": "least squares"}),
}


@register(
    title="Preconditioned regression",
    order=3,
    task="linear_regression",
    reference="ours; private whitening, then clipped preconditioned steps",
    summary="Whitens the rows privately, then takes a few clipped gradient steps; needs no bounds.",
    calibrations=("tight",),
    releases=RELEASES,
    forms={"intercept": Form(keywords={"intercept": True}), **_INTERVALS},
    public="of few rows units in which columns and response are of order one",
)
def preconditioned_regression(
    sample: Sample, params: PreconditionedParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, R)."""
    return preconditioned(sample, params, transcript)


@register(
    title="Preconditioned Newton steps",
    order=51,
    task="glm",
    reference="ours; private whitening, then clipped Newton-like steps",
    summary="Whitens the rows privately, then takes a few clipped Newton-like steps; needs no bounds.",
    calibrations=("tight",),
    example={"family": "gaussian"},
    releases=RELEASES,
    check_data=check_labels,
    forms={
        "constant": Form(keywords={"intercept": True}),
        "constant, offset": Form(keywords={"intercept": True, "offset_bounds": (-1.0, 0.5)}),
        **_INTERVALS,
        "interval, offset": Form(keywords={"interval": 0.95, "offset_bounds": (-1.0, 0.5)}),
    },
    public="units in which columns are of order one; n_classes where the family has classes",
)
def preconditioned_glm(sample: Sample, params: PreconditionedGLMParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R), or (d, K, R) with classes."""
    answer = preconditioned(params.covariates(sample), params, transcript)
    if params.offset_bounds is not None and transcript.interval is not None:
        transcript.interval = transcript.interval.after_offset()
    return params.made().identified(params.coefficients(answer))


def preconditioned(sample: Sample, params: PreconditionedParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients of the covariates, (d, R), or (d, K, R) with classes."""
    sample.check_response()
    family, mu, d = params.made(), gaussian_mu(params.epsilon, params.delta), sample.n_features
    n_rows = float(sample.n_rows.min())
    plan = plan_of(
        mu * n_rows,
        d,
        family,
        intercept=params.intercept,
        has_offset=sample.offset_bounds is not None,
        for_interval=params.interval is not None,
    )
    # An interval's shares are of the whole, the plan's of what these leave.
    reserved = {} if plan.is_constant else interval_shares(params, n_rows, d)
    budget = params.split_budget(plan.shares, reserved)
    start, offset = _constant(transcript, sample, family, params, budget, plan)
    if plan.is_constant:
        transcript.note(UNRESOLVED, np.full(sample.n_replicates, d - 1.0))
        if params.interval is not None:
            transcript.interval = Interval.missing(d, sample.n_replicates, FEW)
        return start
    levels = Levels(transcript, sample, family, plan, budget)
    if family.is_linear:
        origin = private_origin(transcript, sample, budget, plan.origin_columns)
        start, levels.unit = origin.coef, origin.units[-1]
    else:
        origin = private_columns(transcript, sample, budget)
        if CONSTANT in budget.shares and not family.classes:
            mean = family.mean(start[-1] + offset)
            levels.unit = np.maximum(mean, 1 - mean if family.has_events else 1.0)
            # Rare events keep their scores, lest their rate suffer.
            levels.least = np.maximum(1 - 2 * mean, 2 * mean - 1 if family.has_events else 0.0)
    white = _whitened(transcript, sample, params, budget, levels, origin)
    reach = _REACH * np.sqrt(d) if family.is_linear and params.interval is None else np.inf
    rows = WhiteRows(sample, family, white.matrix, start, offset, reach)
    theta, start_variance = _start(family, white, start, params.intercept)
    if "start" in budget.shares:
        levels.unit = levels.typical_response()
        one = np.linalg.solve(white.matrix, white.ridge_start()[0])[..., 0].T
        theta = one * (np.log(levels.unit) - offset)
    if plan.public_levels is not None:
        kept = signal_share(theta, start_variance)
        theta, start_variance = kept * theta, kept**2 * start_variance
    made = released_steps(transcript, budget, plan, rows, white, levels, theta)
    transcript.note(UNRESOLVED, made.white.unresolved)
    n_combined = plan.n_steps - plan.n_left_out
    centered = made.released.last(n_combined if family.is_linear else _N_CENTERED)
    if not family.classes:
        middle = None
        if not family.is_linear:
            middle = (made.white.mean_row * made.released.end).sum(axis=0) + start[-1] + offset
        around = made._replace(released=centered)
        transcript.interval = interval_of(transcript, params, budget, around, middle)
    answer = _answer(made, n_combined, start_variance, levels.clipped_share, params.intercept)
    if plan.longest is not None:
        answer = answer * clip_factor(np.linalg.norm(answer, axis=0), plan.longest)
    return made.rows.coef(answer)


def _constant(
    transcript: Transcript,
    sample: Sample,
    family: Family,
    params: PreconditionedParams,
    budget: SplitBudget,
    plan: FitPlan,
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of which the last one is the released constant's, and a typical offset, (R,)."""
    start = np.zeros((sample.n_features, *family.classes, sample.n_replicates))
    offset = np.full(sample.n_replicates, np.mean(sample.offset_bounds or 0.0))
    noise = ConstantNoise(transcript, budget, alone=plan.is_constant)
    if CONSTANT in budget.shares:
        start[-1] = private_constant(noise, sample, family)
    if EXPOSURE in budget.shares:
        offset = private_typical_offset(noise, sample)
    if params.intercept and not family.is_linear:
        start[-1] -= offset
    return start, offset


def _whitened(
    transcript: Transcript,
    sample: Sample,
    params: PreconditionedParams,
    budget: SplitBudget,
    levels: Levels,
    origin: Origin,
) -> Whitening:
    """Release the first moments of rows z, about their origin."""
    family, ones = params.made(), sample.n_features - 1 if params.intercept else None
    whole = WholeRows(sample.grouped(_rows_of(family, params.intercept)), origin.coordinates, ones)
    level, multiplier = levels.rows(whole), budget.gaussian_multiplier("moments")
    white = private_whitening(transcript, sample, whole, level, noise_multiplier=multiplier)
    if family.is_linear:
        note_moments(transcript, white, level)
    return white


def _rows_of(family: Family, intercept: bool) -> Callable[[Group], FloatArray]:
    """Return what makes the rows z of a group: x, and one entry more."""

    def rows(group: Group) -> FloatArray:
        last: FloatArray = np.ones(len(group.X))
        if family.is_linear:
            last = group.y - np.ravel(group.offset)
        elif intercept and family.has_events:
            last = 2 * group.y - 1
        return np.column_stack([group.X, last])

    return rows


def _start(
    family: Family, white: Whitening, origin: FloatArray, intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Return θ at which steps begin, in the shape of ``origin``, and its noise's variance, (R,)."""
    if family.is_linear:
        coef, variance = white.ridge_start()
        return np.linalg.solve(white.matrix, coef)[..., 0].T, variance
    if family.has_events and intercept:
        # Of 2y − 1 beyond what the constant predicts, over half of the curvature.
        coef, variance = white.ridge_start(2 * family.mean(origin[-1]) - 1)
        half = 2 * family.second_derivative(origin[-1])
        slopes = np.linalg.solve(white.matrix, coef)[..., 0].T / half
        return james_stein(slopes, variance / half**2), variance / half**2
    above = family.start_above * white.one if family.start_above and intercept else np.zeros_like(origin)
    return above, np.zeros(origin.shape[-1])


def _answer(
    made: Steps,
    n_combined: int,
    start_variance: FloatArray,
    clipped_share: FloatArray,
    intercept: bool,
) -> FloatArray:
    """Return white coefficients: the steps combined, and shrunk."""
    family, white = made.rows.family, made.white
    known: FloatArray = np.ones_like(white.curvature)
    if family.is_linear:
        # After one whitening, what lies below the floor is as likely signal as noise.
        least = np.where(made.is_whitened, 0.0, _LEAST_CURVATURE)[:, None]
        known = np.maximum(white.curvature, least)
        known = known * np.maximum(1 - clipped_share[:, None], _LEAST_CURVATURE)
    # A step is shorter by its ridge, and leaves so much of the noise in earlier ones.
    noise = np.sqrt(made.full.variances[-1] * len(made.full.end))
    part = np.maximum(1 - family.step_ridge * noise, 0.0)
    combined, variance = combined_steps(
        made.full.last(n_combined),
        np.tile(part[:, None] * known, (1, int(np.prod(family.classes)))),
        start_variance,
        entry_variance=_ENTRY_VARIANCE,
        own_variance=0.0 if family.is_linear else _OWN_VARIANCE,
    )
    if family.classes:
        return james_stein(combined, variance[0]).reshape(made.rows.shape)
    one = white.one / np.linalg.norm(white.one, axis=0)
    constant = one * (one * combined).sum(axis=0) if intercept else np.zeros_like(combined)
    along = np.einsum("rij,ir->jr", white.directions, combined - constant)
    shrunk = shrunk_directions(along, variance, known)
    if not family.is_linear:  # without slopes it is the constant that steps began with
        size = np.maximum(np.linalg.norm(along, axis=0), np.finfo(float).tiny)
        constant = constant * (np.linalg.norm(shrunk, axis=0) / size)
    # In C order: what follows rounds by the order in memory.
    slopes: FloatArray = np.ascontiguousarray(np.einsum("rij,jr->ir", white.directions, shrunk))
    return constant + slopes
