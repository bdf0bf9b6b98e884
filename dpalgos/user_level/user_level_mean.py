"""The mean over users; the guarantee covers all samples of a user.

    x̄_u = the mean of user u's rows;   m̂ = a winsorized mean of x̄_1, …, x̄_n

Guarantee: (ε, δ) under replacing one user with all of that user's rows, for any number of rows. The number n
of users is public. Public: ``value_bound`` B on every coordinate of the mean, and ``concentration_radius`` τ.
Users' means lie within the ℓ2 distance τ of their common mean. For m rows of standard deviation σ each, this
is about σ√(d + 2√(ds) + 2s)/√m, s = log(n/γ). A τ that is too small costs accuracy, never privacy.

Noise is in proportion to τ, and so to 1/√m. Clipping at B costs the same for every m. Beyond a few dozen rows
a user, the noise by τ is smaller.

Each user counts once: the estimate is the mean of users' means. A user with half of all rows moves it as much
as any other. τ must suit the users with fewest rows.

Why it is private. Replacing a user replaces one vector x̄_u. The rest is the proof of the aggregation
(:mod:`dpalgos.user_level.aggregation`). Ranges have scores of sensitivity 1. Means of clipped vectors move by
at most twice the radius over n.

Interval (:mod:`dpalgos.intervals.means`): users are sampled. In a single column, whose noise is Laplace's, a
share of ε pays for both releases.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import (
    Form,
    register,
)
from dpalgos.intervals.means import BALL_SQUARES, BALL_TAIL, PURE_SQUARES, PURE_TAIL
from dpalgos.params import IntervalParams, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.replicates import each_replicate
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import (
    AggregationParams,
    UserAggregation,
    mean_releases,
)


@dataclass(frozen=True, kw_only=True)
class UserLevelMeanParams(IntervalParams, AggregationParams):
    """Keywords of :func:`user_level_mean`."""

    value_bound: float = positive("B: every coordinate of the mean lies in ±B")


MEAN_RELEASES = mean_releases("mean")
RELEASES = (
    *MEAN_RELEASES,
    PURE_SQUARES,
    PURE_TAIL,
    BALL_SQUARES,
    BALL_TAIL,
)


@register(
    title="Winsorized mean over users",
    order=30,
    task="mean",
    relation=Relation.USER,
    reference="Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2",
    summary="Averages each user's rows, locates the user means, and scales the noise to their spread.",
    example={"value_bound": 20.0, "concentration_radius": 1.0, "range_failure": 1.0},
    releases=RELEASES,
    forms={
        "clipped": Form(keywords={"aggregation": "clipped"}, calibrations=("tight", "paper")),
        "interval": Form(keywords={"interval": 0.95}),
        "clipped interval": Form(keywords={"aggregation": "clipped", "interval": 0.95}),
        "group privacy": Form(
            keywords={"aggregation": "group_privacy", "samples_per_user": 2}, calibrations=("paper",)
        ),
    },
)
def user_level_mean(sample: Sample, params: UserLevelMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    if sample.row_mask is not None:  # replicates with different rows have different users
        return each_replicate(sample, transcript, lambda _, own, part: user_level_mean(own, params, part))
    users = params.users(sample)
    aggregation = UserAggregation(
        params,
        MEAN_RELEASES,
        bound=float(np.sqrt(sample.n_features)) * params.value_bound,
        n_features=sample.n_features,
        n_queries=1,
        interval=params.interval,
    )
    return aggregation.mean(transcript, users.means(users.X))
