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

    release                   sensitivity    share of ρ, winsorized    share, clipped
    range of the mean         1 (a count)    0.1
    first mean                2r/n           0.15
    mean                      2r/n           0.75                      the rest
    score moments             √2/n, 1/n      0.05, with an interval    0.05 of μ², with an interval
    shares by size            √2/n, 2/n      0.12, with an interval    0.12 of μ², with an interval

r is the radius of the ball to which vectors are clipped, or the half-width of the interval of a column.

Interval (:mod:`dpalgos.intervals.means`): users are sampled. In a single column, whose noise is Laplace's, a
share of ε pays for both releases.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, register
from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.persons import sums_of_units
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.intervals.means import BALL_SQUARES, BALL_TAIL, PURE_SQUARES, PURE_TAIL
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.params import positive
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import AggregatingEstimator, UserAggregation, mean_releases

MEAN_RELEASES = mean_releases("mean")


@register(
    name="user_level_mean",
    title="Winsorized mean over users",
    order=30,
    task="mean",
    relation=Relation.USER,
    reference="Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2",
    summary="Averages each user's rows, locates the user means, and scales the noise to their spread.",
    example={"value_bound": 20.0, "concentration_radius": 1.0, "range_failure": 1.0},
    forms={
        "clipped": Form(keywords={"aggregation": "clipped"}, calibrations=("tight", "paper")),
        "interval": Form(keywords={"interval": 0.95}),
        "clipped interval": Form(keywords={"aggregation": "clipped", "interval": 0.95}),
        "group privacy": Form(
            keywords={"aggregation": "group_privacy", "samples_per_user": 2}, calibrations=("paper",)
        ),
    },
)
@dataclass(frozen=True, kw_only=True)
class UserLevelMean(IntervalEstimator, AggregatingEstimator):
    """The mean over users of the means of their rows."""

    value_bound: float = positive("B: every coordinate of the mean lies in ±B")

    batch = True
    batch_of_same_rows = True
    lemmas: ClassVar[Lemmas] = {
        **MEAN_RELEASES.lemmas,
        PURE_SQUARES.label: (BALL_SQUARES.lemma, PURE_SQUARES.lemma),
        PURE_TAIL.label: (BALL_TAIL.lemma, PURE_TAIL.lemma),
    }

    def plan(self, n: float, d: int) -> Plan:
        return self.aggregation_of_means(d).plan(n)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        means = sums_of_units(rows, lambda block: (block.row_weights, block.X), rows.d)
        released = self.aggregation_of_means(rows.d).mean(spend, means, rows.sample.n_replicates)
        return rows.by_replicate(released)

    def aggregation_of_means(self, d: int) -> UserAggregation:
        """Return what releases the mean over users."""
        return UserAggregation(
            params=self,
            releases=MEAN_RELEASES,
            bound=float(np.sqrt(d)) * self.value_bound,
            n_features=d,
            n_queries=1,
            interval=self.interval,
        )
