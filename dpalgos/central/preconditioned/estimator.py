"""Private regression by whitening first and then a few clipped Newton steps (ours): all families.

    W = M_xx^(−1/2),  M = the released second moments of clipped rows z         (whitening)
    θ ← θ + (H(θ) + λ I)⁻¹ ( mean_i w_i u_i (y_i − ψ'(u_i'θ))' + noise ),   u_i = W'x_i          (T steps)
    β̂ = W θ̄,  θ̄ a combination of the steps, shrunk to its posterior mean

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Rows, responses and coefficients need no bound.
Each row adds its score, clipped to a threshold C that is public or released. Columns should be in public
units in which they are of order one, such as a quarter of the width of their bounds. Units affect accuracy
only.

Times to an event (``counted_events``): a row is followed from one time to another. It has covariates that
were known when it began. How follow-up is divided into rows changes nothing: the score of a person is a sum
over time.

- The life table comes first (:mod:`dpalgos.central.preconditioned.life_table`). It gives operational time, in
  which the pooled hazard is even. Integrals over a row are integrals in operational time.
- With 'first' events, a person has at most one. In a group of periods, rows are shortened to C/c by a factor
  that depends on their covariates and the group alone. Follow-up stops at a cumulative hazard of c, from 1 to
  1.25 (nμ/1000)^0.23 by the released mean of events (:mod:`dpalgos.central.preconditioned.follow_up`). The
  sum of a person's scores is clipped at C. It has mean 0 at the true coefficients.
- With 'all' events, a person's scores are those of counts.
- In the last steps, white rows are half as long along the baseline hazard and its slope and curve. The
  effects of covariates do not depend on these directions, and thresholds of shorter scores are lower.
- In means and moments, the rows of a person weigh as parts of the follow-up, which sum to 1. Sums of
  scores and curvatures are clipped as a whole.

If hazards are not proportional, coefficients solve E[Σ w u M_c] = 0. M_c is an event less the cumulative
hazard, until that reaches c. Early events then weigh more than in Cox regression, unless c is large.

Weights: w_i = min(1, C/(‖u_i‖ r_i)). For events and classes r_i is the largest residual of any label.
Clipping then depends on the row, but not on its label: the mean score is 0 at the true coefficients (Künsch,
Stefanski & Carroll 1989). For other responses r_i is the size of the residual.

Why it is private. The estimator is :meth:`PreconditionedRegression.fit`. Each ``spend`` releases one query
with Gaussian noise. Queries are in :mod:`dpalgos.central.preconditioned.queries` and
:mod:`dpalgos.central.preconditioned.scores`. Each states its sensitivity Δ. Let μ = μ(ε, δ). A release with
share f of μ² gets noise Δ/(μ √f). Shares that sum to 1 compose to exactly (ε, δ). All else follows from
released and public numbers. :mod:`dpalgos.central.preconditioned.plan` has all releases and their shares.
A run whose releases are not the planned ones is refused.

Rows z are [x, y] in linear models, else [x, 1]. With ``intercept`` they are taken about released centers
(:mod:`dpalgos.central.preconditioned.intercept`). The coefficients are for the columns as given. Linear steps
start from the ridge regression of the released M. Other steps start from the released mean response. Without
an intercept, events start at zero.

Few events: if the released mean response shows that slopes are not worth their noise, steps release it again,
at the same cost. With an interval, all steps release scores.

Few rows: below a public limit, a model with an intercept estimates the intercept alone, with Laplace noise.
Above it, slopes are shrunk to their posterior mean. If the first half of the steps shows no slopes beyond
noise, all slopes are 0. The rest of the budget then releases the mean response. With an interval, slopes are
never set to 0 (:mod:`dpalgos.central.preconditioned.steps`).

Large budgets: rows of linear models that are longer than 5 √d are shortened together with their responses.
This length and thresholds of scores rise with nμ. Therefore the estimate tends to that of least squares, and
of maximum likelihood for events. For counts, rows of high leverage keep an influence that is smaller than in
maximum likelihood.

``offset_bounds``: the first column of X is an offset, for rates. It is clipped to public bounds and added to
x'β. Its coefficient is exactly 1 and is part of the estimate. Like y, an offset belongs to the row: scores
are clipped for every offset.

Interval (:mod:`dpalgos.central.preconditioned.interval`, no classes): it takes its share first. The fit
follows the same plan with the rest. Two things differ. Rows of linear models may be whitened again even in
good units. Late steps of other models get most of the budget. The interval is centered at steps before
shrinkage. Below nμ = 30 √d, no interval is computed and no budget is spent on it.

Expected behavior: if the second moment of a direction of X is below the noise floor, the coefficient along it
stays near the start. ``diagnostics["unresolved_directions"]`` counts these directions. A direction in which
only a few rows of high leverage vary is unresolved: predictions for these rows are shrunk towards zero.

References: Kamath, Li, Singhal & Ullman (2019), Privately learning high-dimensional distributions (recursive
private preconditioning). Künsch, Stefanski & Carroll (1989), Conditionally unbiased bounded-influence
estimation in general regression models.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpalgos import goodness
from dpalgos.accounting.events import Gaussian as GaussianRelease
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, register
from dpalgos.cautions import ROWS_BEYOND, SCORES_BEYOND, UNRESOLVED, UNSURE_MEAN
from dpalgos.central.preconditioned.intercept import (
    CountBound,
    Origin,
    Start,
    released_origin,
    released_start,
    searched,
    with_released_total,
)
from dpalgos.central.preconditioned.interval import released_interval
from dpalgos.central.preconditioned.life_table import LIFE_TABLE_NOTE, LifeTable, life_table
from dpalgos.central.preconditioned.plan import (
    CONSTANT,
    LAST_STEP,
    LEAST_SQUARES,
    LEMMAS,
    LIFE_TABLE,
    MOMENTS,
    N_SEARCHES,
    ROBUST,
    ROWS_ABOVE,
    SCORES_ABOVE,
    STEP,
    WEIGHT,
    WHITE,
    WHITE_MOMENTS,
    WHITE_ROWS,
    WHITENED_TWICE,
    WITNESSES,
    Numbers,
    clipped_scores,
    largest_length,
    mean_width,
    people_limit,
    public_threshold,
    row_search,
    score_candidates,
    shares_of,
)
from dpalgos.central.preconditioned.queries import clipped_moments, joined_in, rows_in
from dpalgos.central.preconditioned.scores import ScoreFunction
from dpalgos.central.preconditioned.steps import Steps
from dpalgos.central.preconditioned.whitening import Whitening
from dpalgos.core.estimator import IntervalEstimator, Witnesses
from dpalgos.core.other_plans import laplace_plan, replan
from dpalgos.core.persons import UnitEstimator
from dpalgos.core.plans import Plan, gaussian_plan
from dpalgos.core.record import Noisy
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.interval import FEW, Interval
from dpalgos.mechanisms.sensitivity import Lemmas, histogram, interval
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.models.families.gaussian import Gaussian
from dpalgos.models.families.poisson import SingleEvents
from dpalgos.models.offsets import OffsetEstimator
from dpalgos.params import choice, count, positive
from dpalgos.tuning.threshold_search import search
from dpalgos.typing import FloatArray

FIRST, ALL = "first", "all"  # events of a person that count

_LARGEST_LIMIT = 20.0  # the cumulative hazard beyond which hardly anybody is at risk
_OF_TIME = 0.5  # of a white row's length, along the baseline hazard and functions of time


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
    name="preconditioned_regression",
    title="Preconditioned regression",
    order=3,
    task="linear_regression",
    reference="ours; private whitening, then clipped preconditioned steps",
    summary="Whitens the rows privately, then takes a few clipped gradient steps; needs no clipping "
    "bounds: it finds them privately.",
    calibrations=("tight",),
    forms={"intercept": Form(keywords={"intercept": True}), **_INTERVALS, **_PEOPLE},
    takes_people=True,
    public="with few rows: units in which columns and response are of order one",
)
@dataclass(frozen=True, kw_only=True)
class PreconditionedRegression(IntervalEstimator, UnitEstimator):
    """The coefficients of a linear model."""

    interval_target: str = choice(
        "'robust': least squares' coefficient where errors are symmetric or do not depend on the covariates, "
        "else the robust-regression coefficient; 'least squares' under any errors, with wider intervals",
        (ROBUST, LEAST_SQUARES),
        default=ROBUST,
    )
    intercept: bool = choice("whether the last column of X is the constant 1", (False, True), default=False)

    lemmas: ClassVar[Lemmas] = LEMMAS
    witnesses: ClassVar[Witnesses] = WITNESSES

    def family_object(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return Gaussian()

    def numbers(self, n: float, d: int) -> Numbers:
        """Return the public numbers of n units of privacy and d columns."""
        return Numbers(
            n_rows=n,
            d=d,
            mu=gaussian_mu(self.epsilon, self.delta),
            family=self.family_object(),
            intercept=self.intercept,
            interval=self.interval is not None,
            target=self.interval_target,
            has_private_total=self.largest_change > 0,
        )

    def plan(self, n: float, d: int) -> Plan:
        return self.plan_of(self.numbers(n, d))

    def plan_of(self, numbers: Numbers, total: float | None = None) -> Plan:
        """Return the plan; with a released ``total`` weight, what follows it is planned with that."""
        shares = shares_of(numbers, total)
        if MOMENTS in shares or WEIGHT in shares:
            return gaussian_plan(self.epsilon, self.delta, shares)
        return laplace_plan(self.epsilon, shares)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        return self.coefficients_of(rows, spend, self.numbers(rows.n, rows.d))

    def coefficients_of(self, rows: Rows, spend: Spend, numbers: Numbers) -> FloatArray:
        """Return the coefficients of the covariates, (d,), or (d, K) with classes."""
        rows.sample.check_response()
        family = numbers.family
        if WEIGHT in spend.plan:
            rows = with_released_total(spend, rows, self.largest_change, self.max_weight)
            replan(spend, self.plan_of(numbers, rows.n))
            numbers = replace(numbers, n_rows=rows.n)
        if LIFE_TABLE in spend.plan:
            rows = _in_operational_time(spend, rows)
        start = released_start(spend, rows, family, numbers.count_bound)
        if start.is_mean:
            numbers = numbers.with_events(start.mean)
        intercept = np.zeros((numbers.d, *family.classes))
        intercept[-1] = (start.predictor - start.offset) * numbers.intercept
        if MOMENTS not in spend.plan:
            if start.is_mean:
                spend.note(UNSURE_MEAN, start.is_unsure)
            spend.note(UNRESOLVED, numbers.d - 1.0)
            if self.interval is not None:
                _keep_interval(spend, numbers, Interval.missing(numbers.d, 1, FEW))
            return intercept
        origin, white = _released_whitening(spend, numbers, rows, start)
        if family.is_linear:
            intercept[-1] = origin.centers[-1]
        state = Steps(family, white, np.zeros_like(intercept), np.asarray(intercept[-1] + start.offset))
        if family.is_linear:
            theta, variance = white.ridge_start()
            state = state._replace(theta=theta, variance=variance)
        elif family.has_counts and not numbers.intercept:
            state = state._replace(theta=white.ridge_start()[0] * (start.predictor - start.offset))
        score, state, start, clipped_share = _released_steps(
            spend, numbers, rows, origin, start, state, intercept
        )
        is_constant = start.is_mean and (start.hides_slopes(numbers) or not state.points)
        theta = state.theta
        if not is_constant:
            theta = state.estimate(clipped_share, intercept=numbers.intercept)
        spend.note(UNRESOLVED, float((state.white.curvature < 1).sum()))
        if self.interval is not None:
            _keep_interval(spend, numbers, released_interval(spend, self.interval, numbers, score, state))
        if start.is_mean and not family.is_linear:
            spend.note(UNSURE_MEAN, start.is_unsure)
        if is_constant:
            return np.append(np.zeros(numbers.d - 1), start.predictor - start.offset)
        return score.coef(theta)


@register(
    name="preconditioned_glm",
    title="Preconditioned Newton steps",
    order=51,
    task="glm",
    reference="ours; private whitening, then clipped Newton-like steps",
    summary="Whitens the rows privately, then takes a few clipped Newton-like steps; needs no clipping "
    "bounds: it finds them privately.",
    calibrations=("tight",),
    example={"family": "gaussian"},
    check_data=check_labels,
    forms={
        "constant": Form(keywords={"intercept": True}),
        "constant, offset": Form(keywords={"intercept": True, "offset_bounds": (-1.0, 0.5)}),
        **_INTERVALS,
        "interval, offset": Form(keywords={"interval": 0.95, "offset_bounds": (-1.0, 0.5)}),
        **_PEOPLE,
    },
    takes_people=True,
    public="units in which columns are of order one; n_classes where the family has classes",
)
@dataclass(frozen=True, kw_only=True)
class PreconditionedGLM(PreconditionedRegression, OffsetEstimator, CountBound):
    """The coefficients of a generalized linear model, an offset's among them; (d, K) with classes."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)
    counted_events: str = choice(
        "with family='poisson' and user_ids: rows are the follow-up of persons in the order of time, "
        "until the 'first' event, or with 'all' events",
        ("", FIRST, ALL),
        default="",
    )
    hazard_limit: float | None = positive(
        "with counted_events='first': the cumulative hazard at which the follow-up of a person stops; by "
        "default from 1, by the released share of persons with an event",
        default=None,
    )
    n_periods: int | None = count(
        "with counted_events: the number of public periods of a life table, in which rows are followed",
        default=None,
    )

    lemmas: ClassVar[Lemmas] = {**LEMMAS, CONSTANT: (interval, histogram)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counted_events and self.family != "poisson":
            raise InputError(
                f"counted_events must be left out without family='poisson', got {self.counted_events!r}"
            )
        self.check_count_bound(self.family)
        if self.count_bound is not None and self.counted_events:
            raise InputError(f"count_bound must be left out with counted_events, got {self.count_bound!r}")
        if self.hazard_limit is not None and self.counted_events != FIRST:
            raise InputError(
                f"hazard_limit must be left out without counted_events='first', got {self.hazard_limit}"
            )
        if self.hazard_limit is not None and self.hazard_limit > _LARGEST_LIMIT:
            raise InputError(f"hazard_limit must be at most {_LARGEST_LIMIT:g}, got {self.hazard_limit:g}")
        if self.n_periods is not None and not self.counted_events:
            raise InputError(f"n_periods must be left out without counted_events, got {self.n_periods}")
        self.check_offset(self.family_object())
        if self.interval is not None and self.family_object().needs_classes:
            raise InputError(
                f"interval must be left out for family={self.family!r}, got {self.interval!r}: its "
                "coefficients are known up to a common vector"
            )

    def family_object(self) -> Family:
        """Return the family; its residuals are not bounded, scores are clipped here."""
        return (
            SingleEvents()
            if self.counted_events == FIRST
            else get_family(self.family, n_classes=self.n_classes)
        )

    def numbers(self, n: float, d: int) -> Numbers:
        """Return the public numbers of n units of privacy and d columns, an offset among them."""
        self.check_columns(d)
        has_offset = self.offset_bounds is not None
        numbers = super().numbers(n, d - has_offset)
        return replace(
            numbers,
            has_offset=has_offset,
            n_periods=self.n_periods or 0,
            fixed_limit=self.hazard_limit,
            count_bound=self.count_bound or np.inf,
        )

    def formulas(self, n: float, d: int) -> dict[str, str]:
        of_shares = self.family_object().needs_classes and isinstance(
            self.plan(n, d).get(CONSTANT), GaussianRelease
        )
        return super().formulas(n, d) | {CONSTANT: (histogram if of_shares else interval).formula}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        covariates = Rows.of_sample(self.covariates(rows.sample))
        coef = self.coefficients_of(covariates, spend, self.numbers(rows.n, rows.d))
        family = self.family_object()
        return rows.by_replicate(family.identified(self.coefficients(rows.by_column(coef))))


def _keep_interval(spend: Spend, numbers: Numbers, interval: Interval) -> None:
    spend.keep_interval(interval.after_offset() if numbers.has_offset else interval)


def _in_operational_time(spend: Spend, rows: Rows) -> Rows:
    """Release the life table; return the rows with the functions of operational time."""
    follow_up = rows.sample.follow_up
    if follow_up is None:
        raise InputError("n_periods needs the periods of rows, got none; call dpalgos.formula.phreg")
    table = LifeTable.of(spend(LIFE_TABLE, life_table(rows, follow_up)), rows.n, follow_up.lengths)
    spend.note(LIFE_TABLE_NOTE, table.as_note)
    return replace(rows, sample=rows.sample.with_follow_up(table.applied(follow_up)))


def _released_whitening(spend: Spend, numbers: Numbers, rows: Rows, start: Start) -> tuple[Origin, Whitening]:
    """Return the origin of rows z, and the whitening by released moments (d + 1, d + 1) about it.

    Further whitenings, by moments of white rows, take the place of the first steps.
    """
    linear = numbers.family.is_linear
    few = numbers.intercept and numbers.has_few_rows
    origin = released_origin(spend, rows, linear=linear, few=few)
    coordinates = origin.coordinates
    vectors = joined_in(coordinates, with_response=linear)
    threshold = float(np.sqrt(numbers.d + 1))
    if ROWS_ABOVE in spend.plan:
        candidates, target = row_search(numbers, spend.multiplier(ROWS_ABOVE))
        threshold = searched(spend, ROWS_ABOVE, rows, vectors.lengths, candidates, target)
        spend.note(ROWS_BEYOND, origin.is_far or threshold == candidates[-1])
    elif origin.is_far:
        spend.note(ROWS_BEYOND, True)
    released = spend.symmetric(MOMENTS, clipped_moments(rows, vectors, threshold))
    white = Whitening.of(released, coordinates, numbers.d - 1 if numbers.intercept else None)
    if linear:
        notes = (*released, threshold, coordinates)
        for name, note in zip(goodness.MOMENTS, notes, strict=True):
            spend.note(name, note)
    t = 0
    while not start.hides_slopes(numbers) and white.needs_another(numbers, t, spend.multiplier(STEP)):
        white, t = _whitened_again(spend, numbers, rows, white), t + 1
    return origin, white


def _whitened_again(spend: Spend, numbers: Numbers, rows: Rows, white: Whitening) -> Whitening:
    """Return the whitening by released second moments (d, d) of white rows, in the place of a step."""
    vectors, threshold, has_short_rows = rows_in(white.matrix), WHITE * numbers.root, False
    if SCORES_ABOVE in spend.plan:
        candidates = numbers.root * WHITE_ROWS
        target = clipped_scores(numbers)
        threshold = searched(spend, SCORES_ABOVE, rows, vectors.lengths, candidates, target)
        has_short_rows = threshold == candidates[0]
    moments = clipped_moments(rows, vectors, threshold)
    released = spend.symmetric(STEP, moments, form=WHITE_MOMENTS)
    return white.refined(released, has_short_rows=has_short_rows)


def _released_steps(
    spend: Spend,
    numbers: Numbers,
    rows: Rows,
    origin: Origin,
    start: Start,
    state: Steps,
    intercept: FloatArray,
) -> tuple[ScoreFunction, Steps, Start, float]:
    """Release the steps: scores, or in their place the mean response.

    Also return the rows after the last whitening, and the approximate share of rows clipped in a step.
    """
    family = numbers.family
    max_length = np.inf
    if family.is_linear and not numbers.interval:
        max_length = largest_length(numbers.d, numbers.n_rows, spend.multiplier(STEP))
    score: ScoreFunction | None = None
    clipped_share, largest = 0.0, 0.0
    if SCORES_ABOVE not in spend.plan:
        public = public_threshold(numbers) * (origin.unit if family.is_linear else 1.0)
        state = state._replace(clip=numbers.row_clip(public), threshold=public)
    n_steps = sum(spend.plan[label].times for label in (STEP, LAST_STEP) if label in spend.plan)
    n_before = N_SEARCHES if SCORES_ABOVE in spend.plan else n_steps // 2
    follow_up = rows.sample.follow_up
    n_effects = numbers.d if follow_up is None else numbers.d - 1 - len(follow_up.time_columns)
    while n_left := sum(map(spend.times_left, (STEP, LAST_STEP))):
        step = STEP if spend.times_left(STEP) else LAST_STEP
        if step is LAST_STEP and state.white.scale is None and 0 < n_effects < numbers.d:
            state, score = state.shortened(n_effects, _OF_TIME), None
        omits = numbers.may_omit_slopes and n_steps - n_left == n_before and state.points
        if omits and not start.hides_slopes(numbers):
            start = _omitted_slopes(numbers, origin, start, state, clipped_share, intercept[-1])
        score = score or ScoreFunction(
            rows,
            family,
            state.white.matrix,
            intercept,
            max_length,
            numbers.row_length,
            people_limit=people_limit(numbers),
            hazard_limit=numbers.hazard_limit,
        )
        if step is LAST_STEP and score.limits is None:
            score.fix_limits(state.theta)  # the interval's curvature takes them as constant
        scores = score.at(state.theta)
        if SCORES_ABOVE in spend.plan and spend.times_left(SCORES_ABOVE):
            unit = origin.unit if family.is_linear else start.unit
            candidates = score_candidates(numbers, unit, state.threshold)
            target = clipped_scores(numbers)
            place = search(spend, SCORES_ABOVE, scores.counts_above(candidates), target)[0]
            # Candidates of later searches are near to the threshold before.
            threshold, largest = float(candidates[place]), largest or candidates[-1]
            spend.note(SCORES_BEYOND, threshold >= largest)
            state = state._replace(threshold=max(threshold, numbers.root * start.least))
            clipped_share = target / numbers.n_rows
        if start.hides_slopes(numbers):  # all that is left goes to the mean response
            better = start.after(spend(step, start.query(rows), form=CONSTANT))
            change = (better.predictor - start.predictor) * state.white.one
            start, state = better, state._replace(theta=state.theta + change)
        else:
            assert state.threshold is not None
            state = state.after(spend(step, scores.clipped_mean(state.threshold)))
        del scores  # as large as the rows
    assert score is not None
    return score, state, start, clipped_share


def _omitted_slopes(
    numbers: Numbers, origin: Origin, start: Start, state: Steps, clipped_share: float, intercept: FloatArray
) -> Start:
    """Return a start without slopes if columns are far from their units, or released steps show no slopes."""
    width, linear = mean_width(numbers), numbers.family.is_linear
    is_whitened_once = linear or numbers.size < WHITENED_TWICE * numbers.root
    if origin.is_far or (is_whitened_once and state.white.hides_columns):
        far = Noisy(intercept - start.offset, np.asarray(np.inf))
        return start.without_slopes(far, width * origin.unit)
    if state.explains(clipped_share):
        return start
    constant = state.constant(clipped_share)
    return start.without_slopes(constant._replace(value=constant.value + intercept), width * origin.unit)
