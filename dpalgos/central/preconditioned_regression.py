"""Private linear regression by whitening first and then a few clipped, preconditioned steps (ours).

    W = M^(−1/2),  M = the released second moments of clipped rows        (whitening)
    θ ← θ + η ( mean_i clip(u_i (y_i − u_i'θ), C) + noise ),  u_i = W x_i   (T steps)
    β̂ = W θ̄,  θ̄ a combination of the steps, shrunk by James–Stein

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Needs no bound on rows, responses or
coefficients: every released quantity is clipped to a level that is public or itself released. Columns should
be in public units in which they are of order one, as a quarter of the width of their bounds is: this affects
accuracy only. The response needs none where nμ ≥ 140; with ``intercept`` no origin matters.

Why it is private. Everything is Gaussian, so that with μ = μ(ε, δ) a release with share f of μ² and
ℓ2 sensitivity Δ gets noise Δ / (μ √f), and shares that sum to 1 compose to exactly (ε, δ). W, θ, the levels
and the shrinkage use released quantities only. The plain form makes the first four releases; each of the
others belongs to the forms in its row, described below:

    quantity                              sensitivity  share       made in             forms
    rows above a level                    1            .0175 left  search_level        all
    second moments                        √2 C_A²/n    .18 left    private_whitening   all
    gradients above a level               1            .0525 left  search_level        all
    preconditioned gradient               2C/n, √2 C²/n  the rest  gradient_steps      all
    values above a candidate center       1, √d        to .08      released_medians    many rows
    values by power of two                √2           to .03      released_response_unit  many rows
    rows far from centers                 1            .008        search_level        many rows
    means about centers                   2R/n         to .06      _means              many rows
    second moments in public coordinates  √2 d/n       named       public_coordinates  public rows
    those of intervals.regression         its own      .152        note_interval       interval and not least
    those of intervals.regression         its own      .567        note_interval       least squares

Shares "left" are of what public rows and an interval leave. Second moments are Z'Z/n, of rows z = [x, y]
clipped to C_A: orthogonal rows of that norm. Gradients are means of clip(u_i r_i, C): opposite rows of norm
C. A level is searched by four counts, of equal shares, for gradients at each of the first three steps, and
rises by one candidate from step to step at most.

Each of the first four steps may whiten the rows again in its place
(:mod:`dpalgos.mechanisms.preconditioned.gradient_steps`): moments of rows u = W x clipped to a released C,
orthogonal rows of that norm, with the same noise for a sensitivity of 1. Released moments decide, so that a
neighbor decides the same, given the same releases.

What follows is heuristics, and affects accuracy only. The steps start from the ridge regression of the
released Z'Z, with a ridge of three times the floor below which its eigenvalues are noise. Shares, steps and
the levels of few rows follow from nμ (:mod:`dpalgos.mechanisms.preconditioned.gradient_steps`). The
lengths of steps (:mod:`dpalgos.mechanisms.preconditioned.step_lengths`) and their combination
(:mod:`dpalgos.steps.denoising`) follow from the released gradients and their noise. Shrinkage is one
James–Stein factor; directions that a further whitening leaves unresolved have each their own. At last θ̄ is
made no longer than the released second moment of y allows, or than 1 where noise hides that.

Forms, each explained with the mechanism that makes it:

Intercept (:mod:`dpalgos.mechanisms.private_origin`): with ``intercept`` z is taken about released centers;
the answer is for the columns as given. y is taken in a released unit where nμ ≥ 140 in any form.

White rows longer than 5 √d, as of a rare category in too small a unit, are shortened to that, and so are
their responses.

Public rows (:mod:`dpalgos.mechanisms.public_coordinates`): with ``public_X``, rows without responses, one
more release asks whether they have the shape of X, by default where public numbers say that it may help; if
so, z = [A x, y].

Interval (:mod:`dpalgos.intervals.regression`): it leaves schedule and levels as they are, on what it does not
take, and the answer, but that no row is shortened, and rows are sooner whitened again; it is centered at the
combination of the steps that is not shrunk. Below nμ = 30 √d it takes nothing, and there is none.

What to expect: directions of X whose second moment lies below the noise floor stay near the ridge regression;
``diagnostics["unresolved_directions"]`` counts them. A direction in which only a few rows of huge leverage
differ (four of 16,599 in `elevators`) looks like one without: predictions for such rows are shrunk towards
zero. Below nμ = 14 an answer is mostly noise, and close to zero.

Reference: Kamath, Li, Singhal & Ullman (2019), Privately learning high-dimensional distributions (recursive
private preconditioning).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Neighbors, register
from dpalgos.goodness import note_moments
from dpalgos.intervals.preconditioned import PreconditionedParams
from dpalgos.mechanisms import public_coordinates as public
from dpalgos.mechanisms.clip_levels import RegressionLevels, with_response
from dpalgos.mechanisms.column_counts import MEDIANS, UNITS
from dpalgos.mechanisms.preconditioned.gradient_steps import (
    GRADIENT,
    Schedule,
    gradient_steps,
    schedule_of,
)
from dpalgos.mechanisms.private_origin import DISTANCE, MEANS, private_origin
from dpalgos.mechanisms.private_whitening import private_whitening
from dpalgos.models.families import get_family
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clip_factor
from dpalgos.steps.denoising import combined_steps, shrunk_directions, signal_share
from dpalgos.typing import FloatArray

_REACH = 5.0  # times √d: white rows beyond are weighed down
_SHRINKAGE = 1.5  # times the James–Stein factor of slopes next to a constant, which is what is left of them
_TOO_FEW = 14.0  # the nμ below which an answer is mostly noise, and shrinks by the square of what is lacking
_LEAST_CURVATURE = 0.5  # that is counted with where rows are clipped
_ENTRY_VARIANCE, _OF_FEW_ROWS = 1 / 200, 3.0  # the whitening is right to 7 %, and less where nμ is small


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedRegressionParams(PreconditionedParams):
    """Keywords of :func:`preconditioned_regression`."""

    def schedule(self, size: float, n_features: int, shape: public.PublicShape | None) -> Schedule:
        """Return how the budget is spent where ``size`` is nμ."""
        schedule = schedule_of(size, n_features, self.intercept, public_rows=shape is not None)
        return replace(schedule, for_interval=self.interval is not None)


def witnesses(
    params: PreconditionedRegressionParams, d: int, published: Sequence[FloatArray]
) -> dict[str, Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity; far above any clip level."""
    first, zero, large = 1e6 * np.eye(1, d), np.zeros(1), np.full(1, 1e6)
    narrow = np.array([[*np.ones(d - 1), 1e-6]])
    wide = np.array([[*np.full(d - 1, 1e20), 1e15]])  # far from its last entry times any center
    return {
        UNITS: (wide, wide[0, :1], narrow, narrow[0, :1]),
        MEDIANS: (wide, wide[0, :1], -wide, -wide[0, :1]),
        MEANS: (first, zero, -first, zero),
        DISTANCE: (first, large, 0 * first, zero),
        "rows above a level": (first, large, 0 * first, zero),
        "second moments": (first, zero, 0 * first, 1e9 * large),
        "gradients above a level": (first, 1e9 * large, 0 * first, zero),
        GRADIENT: (first, 1e9 * large, first, -1e9 * large),
        **params.shared_witnesses(d),
    }


@register(
    title="Preconditioned regression",
    order=3,
    task="linear_regression",
    reference="ours; private whitening, then clipped preconditioned gradient steps",
    summary="Whitens the rows privately, then takes a few clipped gradient steps; needs no bounds.",
    calibrations=("tight",),
    witnesses=witnesses,
    forms={
        "intercept": Form(keywords={"intercept": True}),
        "interval": Form(keywords={"interval": 0.95}),
        "interval, least squares": Form(keywords={"interval": 0.95, "interval_target": "least squares"}),
        "public rows": Form(keywords=public.PUBLIC_EXAMPLE),
    },
    public="of few rows units in which columns and response are of order one; public_X if any",
)
def preconditioned_regression(
    sample: Sample, params: PreconditionedRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, R)."""
    sample.check_response()
    mu = gaussian_mu(params.epsilon, params.delta)
    shape, size, d = params.public_shape(sample, mu), mu * float(sample.n_rows.min()), sample.n_features
    schedule = params.schedule(size, d, shape)
    family = get_family("gaussian")
    reserved = params.interval_shares(float(sample.n_rows.min()), d, family)
    budget = params.divided(schedule.shares(), reserved, shape)
    coordinates = public.public_coordinates(transcript, sample, params, shape, budget)
    levels = RegressionLevels(
        sample, mu, schedule.wanted, schedule.count_multiplier(budget), transcript, schedule.public_levels
    )
    origin = private_origin(transcript, sample, budget, schedule.origin_columns)
    levels.response_unit, coordinates = origin.units[-1], origin.before(coordinates)
    row_level = levels.rows(with_response, coordinates)
    first = private_whitening(
        transcript,
        sample,
        with_response,
        row_level,
        noise_multiplier=budget.gaussian_multiplier("moments"),
        coordinates=coordinates,
    )
    if shape is None:
        note_moments(transcript, first, row_level)
    reach = _REACH * np.sqrt(d) if params.interval is None else np.inf
    rows = WhitenedScores(sample, family, first.matrix, origin.coef, reach=reach)
    start, start_variance = first.ridge_start()
    theta = np.linalg.solve(first.matrix, start)[..., 0].T
    if schedule.shrinks_start:
        kept = signal_share(theta, start_variance)
        theta, start_variance = kept * theta, kept**2 * start_variance
    made = gradient_steps(transcript, budget, rows, first, levels, theta, schedule)
    rows, white = made.rows, made.white
    transcript.note("unresolved_directions", white.unresolved)
    steps, full = (each.last(schedule.n_steps - schedule.n_left_out) for each in (made.steps, made.full))
    params.note_interval(transcript, budget, rows, white, steps)
    # After one whitening, what lies below the floor is as likely signal as noise.
    known = np.where(made.is_whitened[:, None], white.curvature, 1.0)
    theta, variance = combined_steps(
        full,
        schedule.step_size,
        # Rows that are clipped add no curvature; the start errs by at most this in every direction.
        known * np.maximum(1 - levels.clipped_share[:, None], _LEAST_CURVATURE),
        start_variance,
        entry_variance=_ENTRY_VARIANCE + _OF_FEW_ROWS / (mu * sample.n_rows),
    )
    one = white.one / np.linalg.norm(white.one, axis=0)
    constant = one * (one * theta).sum(axis=0) if params.intercept else np.zeros_like(theta)
    along = np.einsum("rij,ir->jr", white.directions, theta - constant)
    shrunk = shrunk_directions(along, variance, known, _SHRINKAGE if params.intercept else 1.0)
    # In C order: what follows rounds by the order in memory.
    theta = constant + np.ascontiguousarray(np.einsum("rij,jr->ir", white.directions, shrunk))
    few = np.minimum(1, mu * sample.n_rows / _TOO_FEW) ** 2
    theta = theta * clip_factor(np.linalg.norm(theta, axis=0), first.longest(few))
    return rows.coef(theta)
