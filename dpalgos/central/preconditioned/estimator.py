"""Private regression by whitening first and then a few clipped Newton steps (ours): all families.

    W = M_xx^(−1/2),  M = the released second moments of clipped rows z         (whitening)
    θ ← θ + η (H(θ) + λ I)⁻¹ ( mean_i w_i u_i (y_i − ψ'(u_i'θ))' + noise ),   u_i = W'x_i          (T steps)
    β̂ = W θ̄,  θ̄ a combination of the steps, shrunk by James–Stein

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Rows, responses and coefficients need no bound.
Each row adds its score, clipped to a threshold C that is public or released. Columns should be in public
units in which they are of order one, such as a quarter of the width of their bounds. Units affect accuracy
only.

Weights: w_i = min(1, C/(‖u_i‖ r_i)). For events and classes r_i is the largest residual of any label.
Clipping then depends on the row, but not on its label: the mean score is 0 at the true coefficients (Künsch,
Stefanski & Carroll 1989). For other responses r_i is the size of the residual.

Why it is private. The estimator is the function :func:`fit`: each ``spend`` releases one query of
:mod:`dpalgos.central.preconditioned.queries` with Gaussian noise. Let μ = μ(ε, δ). A release with share f of
μ² and ℓ2 sensitivity Δ gets noise Δ/(μ √f). Shares that sum to 1 compose to exactly (ε, δ). All else follows
from released and public numbers. :mod:`dpalgos.central.preconditioned.releases` lists the releases, and
``fit`` checks that those made are the planned ones.

Rows z are [x, y] in linear models, else [x, 1]. With ``intercept`` they are taken about released centers
(:mod:`dpalgos.central.preconditioned.origin`). The coefficients are for the columns as given. Linear steps
start from the ridge regression of the released M. Other steps start from the released mean response
(:mod:`dpalgos.central.preconditioned.intercept`). Without an intercept, steps for counts start at about the
released upper quartile, rounded down to a power of two.

Few events: the released mean response may show that slopes are not worth their noise. A step then releases
the mean response again, in place of the mean score. The cost is the same. If this holds until the last step,
the estimate is the intercept alone (:mod:`dpalgos.central.preconditioned.mean_response`). With an interval,
all steps release scores.

Few rows: below nμ = 30 √(d + 1), a model with an intercept estimates the intercept alone, with Laplace noise.
For events, the limit is 24 √(d + 1). Without an intercept, a linear model below 15 √d takes five steps at
public thresholds. Slopes that do not stand out of their noise are 0, too: their released squares must be at
least twice what noise explains. ``diagnostics["slopes_help"]`` is the probability that slopes predict better
than the intercept alone (:mod:`dpalgos.central.preconditioned.combine`).

``offset_bounds``: the first column of X is an offset, for rates. It is clipped to public bounds and added to
x'β. Its coefficient is exactly 1 and is part of the estimate. Like y, an offset belongs to the row: scores
are clipped for every offset.

Interval (:mod:`dpalgos.central.preconditioned.interval`, no classes): it takes its share first. The fit
follows the same plan with the rest. One thing differs: rows may be whitened again even in good units. The
interval is centered at steps before shrinkage. Below nμ = 30 √d, no interval is computed and no budget is
spent on it.

Expected behavior: if the second moment of a direction of X is below the noise floor, the coefficient along it
stays near the start. ``diagnostics["unresolved_directions"]`` counts these directions. A direction in which
only a few rows of high leverage vary is unresolved: predictions for these rows are shrunk towards zero.

References: Kamath, Li, Singhal & Ullman (2019), Privately learning high-dimensional distributions (recursive
private preconditioning). Künsch, Stefanski & Carroll (1989), Conditionally unbiased bounded-influence
estimation in general regression models.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpalgos import goodness
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, register
from dpalgos.cautions import ROWS_BEYOND, SCORES_BEYOND, SLOPES_HELP, UNRESOLVED, UNSURE_MEAN
from dpalgos.central.preconditioned.combine import combined_estimate
from dpalgos.central.preconditioned.intercept import (
    released_class_predictors,
    released_linear_mean,
    released_mean_response,
    released_typical_offset,
    released_typical_response,
)
from dpalgos.central.preconditioned.interval import (
    TIMES,
    RegressionIntervalParams,
    interval_shares,
    released_interval,
)
from dpalgos.central.preconditioned.mean_response import MeanResponse
from dpalgos.central.preconditioned.newton import State
from dpalgos.central.preconditioned.origin import Origin, released_column_centers, released_origin
from dpalgos.central.preconditioned.plan import (
    N_CENTERED,
    WHITE_THRESHOLD,
    FitPlan,
    plan_of,
    public_threshold,
    row_search,
    step_search,
)
from dpalgos.central.preconditioned.queries import (
    clipped_moments,
    joined_rows,
    mean_of,
    mean_response,
    n_rows_of,
    row_norms,
)
from dpalgos.central.preconditioned.releases import (
    CONSTANT,
    EXPOSURE,
    LAST_STEP,
    MOMENTS,
    RELEASES,
    RESPONSES_ABOVE,
    ROWS_ABOVE,
    SCORES_ABOVE,
    STEP,
    WEIGHT,
)
from dpalgos.central.preconditioned.white_rows import WhiteRows
from dpalgos.central.preconditioned.whitening import Whitening, whitening_of
from dpalgos.interval import FEW, Interval
from dpalgos.intervals.offsets import OffsetParams
from dpalgos.mechanisms.sensitivity import interval, outer_product
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.params import choice, count
from dpalgos.release.spend import Allowance, Noisy, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.units import UnitParams
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedParams(RegressionIntervalParams, UnitParams):
    """Keywords of :func:`preconditioned_regression`."""

    intercept: bool = choice("whether the last column of X is the constant 1", (False, True), default=False)

    def family_object(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return get_family("gaussian")


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedGLMParams(PreconditionedParams, OffsetParams):
    """Keywords of :func:`preconditioned_glm`."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_offset(self.family_object())
        self.check_family(self.family_object())

    def family_object(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return get_family(self.family, n_classes=self.n_classes)


_INTERVALS = {
    "interval": Form(keywords={"interval": 0.95}),
    "interval, least squares": Form(keywords={"interval": 0.95, "interval_target": "least squares"}),
}

_BY_ROWS = {"person_weight": "rows", "max_rows": 2}
_PEOPLE = {
    "people": Form(keywords={"interval": 0.95, "intercept": True}, of_people=True),
    "people by rows": Form(keywords=_BY_ROWS, of_people=True),
}


@register(
    title="Preconditioned regression",
    order=3,
    task="linear_regression",
    reference="ours; private whitening, then clipped preconditioned steps",
    summary="Whitens the rows privately, then takes a few clipped gradient steps; needs no clipping "
    "bounds: it finds them privately.",
    calibrations=("tight",),
    releases=RELEASES,
    forms={"intercept": Form(keywords={"intercept": True}), **_INTERVALS, **_PEOPLE},
    takes_people=True,
    one_replicate=True,
    public="with few rows: units in which columns and response are of order one",
)
def preconditioned_regression(
    sample: Sample, params: PreconditionedParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, 1)."""
    return fit(sample, params, transcript)[..., None]


@register(
    title="Preconditioned Newton steps",
    order=51,
    task="glm",
    reference="ours; private whitening, then clipped Newton-like steps",
    summary="Whitens the rows privately, then takes a few clipped Newton-like steps; needs no clipping "
    "bounds: it finds them privately.",
    calibrations=("tight",),
    example={"family": "gaussian"},
    releases=RELEASES,
    check_data=check_labels,
    forms={
        "constant": Form(keywords={"intercept": True}),
        "constant, offset": Form(keywords={"intercept": True, "offset_bounds": (-1.0, 0.5)}),
        **_INTERVALS,
        "interval, offset": Form(keywords={"interval": 0.95, "offset_bounds": (-1.0, 0.5)}),
        **_PEOPLE,
    },
    takes_people=True,
    one_replicate=True,
    public="units in which columns are of order one; n_classes where the family has classes",
)
def preconditioned_glm(sample: Sample, params: PreconditionedGLMParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, 1), or (d, K, 1) with classes."""
    coef = fit(params.covariates(sample), params, transcript)[..., None]
    if params.offset_bounds is not None and transcript.interval is not None:
        transcript.interval = transcript.interval.after_offset()
    return params.family_object().identified(params.coefficients(coef))


def fit(sample: Sample, params: PreconditionedParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients of the covariates, (d,), or (d, K) with classes."""
    sample.check_response()
    sample = params.with_units(sample)
    family, d = params.family_object(), sample.n_features
    plan = plan_of(
        gaussian_mu(params.epsilon, params.delta),
        sample.planned_rows,
        d,
        family,
        intercept=params.intercept,
        has_offset=sample.offset_bounds is not None,
        for_interval=params.interval is not None,
        has_private_total=params.has_private_total,
    )
    spend = planned_spend(params, plan, transcript, sample.planned_rows, d)
    if WEIGHT in spend:
        sample = _with_released_total(spend, sample, params.largest_change)
        plan = replace(plan, size=plan.mu * n_rows_of(sample))
    n_rows = n_rows_of(sample)
    if family.is_bounded:
        plan = replace(plan, score_threshold=public_threshold(plan.mu, n_rows, d))
    start, offset, mean = _start(spend, sample, family, plan, intercept=params.intercept)
    if plan.intercept_only:
        return _intercept_only(spend, params, transcript, start, mean)
    if family.is_linear:
        origin = released_origin(spend, sample)
        start = origin.coef
    else:
        origin = released_column_centers(spend, sample, family)
    white = _released_whitening(spend, sample, family, plan, origin, intercept=params.intercept)
    rows = WhiteRows(sample, family, white.matrix, start, reach=plan.reach)
    state = State(
        family=family,
        n_rows=n_rows,
        white=white,
        theta=np.zeros_like(start),
        origin=np.asarray(start[-1] + offset),
        clip=plan.relative_clip(d),
    )
    start_variance = 0.0
    if family.is_linear:
        coef, start_variance = white.ridge_start()
        state = state._replace(theta=np.linalg.solve(white.matrix, coef), unit=origin.unit)
    elif mean is not None:
        state = state.about(mean)
    elif RESPONSES_ABOVE in spend:
        unit = released_typical_response(spend, sample)
        theta = np.linalg.solve(white.matrix, white.ridge_start()[0]) * (np.log(unit) - offset)
        state = state._replace(theta=theta, unit=unit)
    state, rows, clipped_share = released_steps(spend, plan, rows, state)
    spend.note(UNRESOLVED, state.white.n_unresolved)
    if params.interval is not None:
        transcript.interval = _interval(spend, params, plan, rows, state)
    spend.check_complete()
    if state.mean is not None:
        spend.note(UNSURE_MEAN, state.mean.is_unsure)
        if state.hides_slopes(plan) or not state.points:
            spend.note(SLOPES_HELP, 0.0)
            return np.append(np.zeros(d - 1), state.mean.predictor - offset)
    estimate, slopes_help, stand_out = combined_estimate(
        state, plan, start_variance, clipped_share, intercept=params.intercept
    )
    spend.note(SLOPES_HELP, slopes_help)
    if plan.longest is not None:
        estimate = estimate * min(1.0, plan.longest / max(float(np.linalg.norm(estimate)), plan.longest))
    coef = rows.coef(estimate)
    return coef if stand_out else np.append(np.zeros(d - 1), coef[-1])


def _with_released_total(spend: Spend, sample: Sample, largest: float) -> Sample:
    """Release the mean weight of units, at least its noise; return the sample with the sum of weights."""
    count = n_rows_of(sample)
    released = spend(WEIGHT, mean_of(sample, lambda group: np.ones(len(group.X))), largest, count)
    mean = min(max(float(released.value), float(released.std), 1 / count), 1.0)
    return sample.with_total(mean * count)


def _intercept_only(
    spend: Spend,
    params: PreconditionedParams,
    transcript: Transcript,
    start: FloatArray,
    mean: MeanResponse | None,
) -> FloatArray:
    """Return the released intercept, where rows are too few for slopes."""
    spend.note(UNRESOLVED, len(start) - 1.0)
    spend.note(SLOPES_HELP, 0.0)
    if mean is not None:
        spend.note(UNSURE_MEAN, mean.is_unsure)
    spend.check_complete()
    if params.interval is not None:
        transcript.interval = Interval.missing(len(start), 1, FEW)
    return start


def released_steps(
    spend: Spend, plan: FitPlan, rows: WhiteRows, state: State
) -> tuple[State, WhiteRows, float]:
    """Release the steps of a plan: scores, or in their place moments of white rows, or the mean response.

    Also return the rows after the last whitening, and the approximate share of rows clipped in a step.
    """
    family, d, n_rows = rows.family, rows.sample.n_features, state.n_rows
    clipped_share, largest_threshold = 0.0, 0.0
    for t in range(plan.n_steps):
        step = LAST_STEP if t >= plan.times[STEP] else STEP
        looks = state.wants_mean(plan)
        whitens = not looks and state.wants_whitening(plan, t, spend.multiplier(STEP))
        scores = rows.at(state.theta)
        threshold = state.threshold
        if plan.score_threshold is not None:
            threshold = WHITE_THRESHOLD * float(np.sqrt(d)) if whitens else plan.score_threshold
        elif t < plan.n_searches:
            search = step_search(
                plan, family, n_rows, d, whitens=whitens, last=state.threshold, unit=state.unit
            )
            above = (rows if whitens else scores).norms().counts_above(search.candidates)
            threshold = spend.search(SCORES_ABOVE, search.candidates, search.target, above)
            if not whitens:  # candidates of later searches are near to the threshold before
                largest_threshold = largest_threshold or search.candidates[-1]
                spend.note(SCORES_BEYOND, threshold >= largest_threshold)
            clipped_share = search.target / n_rows
            threshold = threshold if whitens else max(threshold, float(np.sqrt(d)) * state.least)
        assert threshold is not None
        if looks and state.mean is not None:
            largest = state.mean.largest
            value = mean_response(rows.sample, family, largest)
            released = spend(step, value, largest, n_rows, lemma=interval)
            state = state.about(state.mean.after(released))._replace(threshold=threshold)
        elif whitens:
            moments = rows.clipped_moments(threshold)
            released = spend.symmetric(STEP, moments, threshold, n_rows, lemma=outer_product)
            state = state.whitened(released)
            rows = rows.whitened_by(state.white.matrix)
        else:
            released = spend(step, scores.clipped_mean(threshold), threshold, n_rows)
            state = state.stepped(released, threshold)
    return state, rows, clipped_share


def planned_spend(
    params: PreconditionedParams, plan: FitPlan, transcript: Transcript, n_rows: float, d: int
) -> Spend:
    """Return the object that spends the plan; shares of an interval are of the whole, others of the rest."""
    shares = {release.label: share for release, share in plan.shares.items()}
    times = {release.label: n for release, n in {**plan.times, **TIMES}.items()}
    if plan.intercept_only:
        budget = params.split_budget(shares)
        pure = {part: Allowance(epsilon=budget.split_epsilon(part)) for part in shares}
        return Spend(transcript, pure)
    budget = params.split_budget(shares, interval_shares(params, n_rows, d))
    return Spend.of_budget(transcript, budget, times)


def _start(
    spend: Spend, sample: Sample, family: Family, plan: FitPlan, *, intercept: bool
) -> tuple[FloatArray, float, MeanResponse | None]:
    """Return a start whose last coefficient is the released intercept, a typical offset, and the mean."""
    start = np.zeros((sample.n_features, *family.classes))
    offset, mean = float(np.mean(sample.offset_bounds or 0.0)), None
    if CONSTANT in spend and family.classes:
        start[-1] = released_class_predictors(spend, sample, family, plan)
    elif CONSTANT in spend and family.is_linear:
        start[-1] = released_linear_mean(spend, sample)
    elif CONSTANT in spend:
        mean = released_mean_response(spend, sample, family, plan)
        start[-1] = mean.predictor
    if EXPOSURE in spend:
        offset = released_typical_offset(spend, sample)
    if intercept and not family.is_linear:
        start[-1] -= offset
    return start, offset, mean


def released_moments(
    spend: Spend, plan: FitPlan, sample: Sample, coordinates: FloatArray, *, with_response: bool
) -> tuple[Noisy, float]:
    """Release second moments (d + 1, d + 1) of clipped rows z in some coordinates; return their threshold."""
    rows, n_rows = joined_rows(sample, with_response=with_response), n_rows_of(sample)
    threshold = plan.row_threshold
    if threshold is None:
        search = row_search(plan, n_rows, sample.n_features, spend.multiplier(ROWS_ABOVE))
        above = row_norms(rows, coordinates).counts_above(search.candidates)
        threshold = spend.search(ROWS_ABOVE, search.candidates, search.target, above)
        spend.note(ROWS_BEYOND, threshold == search.candidates[-1])
    moments = clipped_moments(rows, coordinates, threshold)
    return spend.symmetric(MOMENTS, moments, threshold, n_rows), threshold


def _released_whitening(
    spend: Spend, sample: Sample, family: Family, plan: FitPlan, origin: Origin, *, intercept: bool
) -> Whitening:
    """Return the first whitening, of rows z about their origin."""
    coordinates, linear = origin.coordinates, family.is_linear
    released, threshold = released_moments(spend, plan, sample, coordinates, with_response=linear)
    white = whitening_of(released, coordinates, sample.n_features - 1 if intercept else None)
    if linear:
        notes = (*released, threshold, white.coordinates)
        for name, note in zip(goodness.MOMENTS, notes, strict=True):
            spend.note(name, note)
    return white


def _interval(
    spend: Spend, params: PreconditionedParams, plan: FitPlan, rows: WhiteRows, state: State
) -> Interval:
    """Release the interval, where the plan has one."""
    if not interval_shares(params, rows.sample.planned_rows, rows.sample.n_features):
        return Interval.missing(rows.sample.n_features, 1, FEW)
    if state.family.is_linear:
        return released_interval(spend, params, rows, state, state.released_steps)
    middle = float(state.white.mean_row @ state.theta + state.origin)
    return released_interval(spend, params, rows, state, state.released_steps.last(N_CENTERED), middle)
