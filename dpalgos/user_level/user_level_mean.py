"""The mean over users; the guarantee covers all samples of a user.

    x̄_u = the mean of user u's rows;   m̂ = a winsorized mean of x̄_1, …, x̄_n

Guarantee: (ε, δ) under replacing one user with all of that user's rows, whatever their number; the number n
of users is public. Public: ``value_bound`` B on every coordinate of the mean, and ``concentration_radius`` τ,
the ℓ2 distance within which users' means lie of their common mean: about σ√(d + 2√(ds) + 2s)/√m for m rows of
standard deviation σ each, s = log(n/γ). A τ that is too small costs accuracy, never privacy.

Noise is in proportion to τ, hence to 1/√m, where clipping at B costs the same for every m: beyond a few dozen
rows a user the first is smaller.

Users of unequal m count the same, once each: the estimate is the mean of users' means. One who holds half of
all rows moves it as much as any other. τ has to suit the users with fewest rows.

``full_weight_rows`` = M weights a user's mean by min(m/M, 1) instead: few rows count little, and τ may be the
distance of those with many (:mod:`dpalgos.mechanisms.winsorized_mean`). Where means of users depend on how
many rows they have, the estimate moves towards those who have many. No interval.

Why it is private. Replacing a user replaces one vector x̄_u; the rest is the argument of the aggregation
(:mod:`dpalgos.user_level.aggregation`): ranges by scores of sensitivity 1, means of clipped vectors moved by
at most twice the radius over n.

Interval (:mod:`dpalgos.intervals.means`): users are what is sampled. In a single column, whose noise is
Laplace's, a share of ε pays for both releases (:mod:`dpalgos.intervals.means`).

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2; of weights
:mod:`dpalgos.mechanisms.winsorized_mean`.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, Published, Release, Witnesses, pair, register, with_interval, witnessed
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import IntervalParams
from dpalgos.intervals.means import SHARES
from dpalgos.intervals.spread import SCORE_MOMENTS, release_second_moments
from dpalgos.intervals.tails import TAIL, release_tail
from dpalgos.mechanisms.private_range import bin_middles
from dpalgos.mechanisms.winsorized_mean import FINE_WINDOW, HadamardRotation
from dpalgos.params import count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import (
    PUBLIC_SEED,
    AggregationParams,
    UserAggregation,
    mean_releases,
    users_of,
)


@dataclass(frozen=True, kw_only=True)
class UserLevelMeanParams(IntervalParams, AggregationParams):
    """Keywords of :func:`user_level_mean`."""

    value_bound: float = positive("B: every coordinate of the mean lies in ±B")
    full_weight_rows: int | None = count(
        "M, public: a user of m rows has weight min(m/M, 1); None: every user has weight 1", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, needed in (("aggregation", "winsorized"), ("calibration", "tight"), ("interval", None)):
            given = getattr(self, name)
            if self.full_weight_rows is not None and given != needed:
                raise InputError(f"{name} must be {needed!r} with full_weight_rows, got {given!r}")


def witnesses(params: UserLevelMeanParams, d: int, published: Published) -> Witnesses:
    """Return the two rows of one user: opposite ends of every interval, and a bin left by all coordinates."""
    far = np.full((2, d), 1e9)
    refined = params.aggregation == "winsorized" and d > 1 and params.calibration == "tight"
    center = published[1][:, :1] if refined else np.zeros((d, 1))
    if d == 1 and params.aggregation == "winsorized":
        width = FINE_WINDOW.bin_width * params.concentration_radius
        middle = bin_middles(published[0][:1, :1], params.value_bound, width)
        center = HadamardRotation(1, PUBLIC_SEED).rotate_back(middle)
    middle = np.repeat(center.T, 2, axis=0)
    along = [1e9 * np.repeat(np.eye(d)[[j]], 2, axis=0) for j in (0, d - 1)]
    apart, fewer = pair(far, -far), pair(far, -far[:1])
    spread = pair(along[0], along[1] if d > 1 else middle), pair(along[0], middle)
    return [pair(0 * far, far), apart, apart if params.full_weight_rows is None else fewer, *spread]


@register(
    title="Winsorized mean over users",
    order=30,
    task="mean",
    relation=Relation.USER,
    reference="Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2",
    summary="Averages each user's rows, finds where users lie, and adds noise in proportion to their spread.",
    example={"value_bound": 20.0, "concentration_radius": 1.0, "range_failure": 1.0},
    releases=witnessed(
        witnesses,
        *mean_releases("mean", " of the rest"),
        Release(
            SCORE_MOMENTS, SHARES[SCORE_MOMENTS], "sqrt(min(d, 2))/n", release_second_moments, with_interval
        ),
        Release(TAIL, SHARES[TAIL], "2/n if d == 1 else sqrt(2)/n", release_tail, with_interval),
    ),
    forms={
        "clipped": Form(keywords={"aggregation": "clipped"}, calibrations=("tight", "paper")),
        "interval": Form(keywords={"interval": 0.95}),
        "weighted": Form(keywords={"full_weight_rows": 2}),
        "clipped interval": Form(keywords={"aggregation": "clipped", "interval": 0.95}),
        "group privacy": Form(
            keywords={"aggregation": "group_privacy", "samples_per_user": 2}, calibrations=("paper",)
        ),
    },
)
def user_level_mean(sample: Sample, params: UserLevelMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    users, full = users_of(sample, params), params.full_weight_rows
    means = {id(one): one.means(one.X) for one in set(users)}
    aggregation = UserAggregation(
        params,
        bound=float(np.sqrt(sample.n_features)) * params.value_bound,
        n_features=sample.n_features,
        n_queries=1,
        interval=params.interval,
        least_weight=None if full is None else 1 / full,
    )
    weights = [] if full is None else [np.minimum(one.n_rows / full, 1) for one in users]
    return aggregation.mean(transcript, [means[id(one)] for one in users], "mean", weights)
