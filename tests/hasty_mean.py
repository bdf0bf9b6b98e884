"""A plugin: a mean whose sensitivity lacks √d, so that rows at opposite limits contradict it."""

from dataclasses import dataclass

from dpalgos.catalog import register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Share, gaussian_plan
from dpalgos.core.rows import clipped_mean
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.rows.products import truncate


@register(
    name="hasty_mean",
    **{"title": "Hasty mean", "order": 986, "task": "mean", "reference": "theirs"},
    **{"summary": "A mean that moves by more than it says.", "calibrations": ("tight",)},
    no_interval="none",
)
@dataclass(frozen=True, kw_only=True, eq=False)
class HastyMean(PrivateEstimator):
    batch = True
    lemmas = {"mean": ball_mean}  # noqa: RUF012

    def plan(self, n, d):
        return gaussian_plan(self.epsilon, self.delta, {"mean": Share(1.0)})

    def fit(self, rows, spend):
        return spend("mean", ball_mean.of(clipped_mean(rows, truncate, 1.0), 1.0, rows.n)).value
