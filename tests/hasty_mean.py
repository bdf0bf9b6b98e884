"""A plugin: a mean whose sensitivity lacks √d, so that rows at opposite limits contradict it."""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.calibration import gaussians
from dpalgos.catalog import Release, register
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.params import PrivateParams


@dataclass(frozen=True, kw_only=True, eq=False)
class HastyParams(PrivateParams):
    pass


@register(
    **{"title": "Hasty mean", "order": 986, "task": "mean", "reference": "theirs"},
    **{"summary": "A mean that moves by more than it says.", "calibrations": ("tight",)},
    no_interval="none",
    releases=(Release("mean", ball_mean),),
)
def hasty_mean(sample, params: HastyParams, transcript):
    multiplier = params.split_budget({"mean": 1.0}).gaussian_multiplier("mean")
    total = np.repeat(np.clip(sample.X, -1, 1).mean(axis=0)[:, None], sample.n_replicates, axis=1)
    moved = 2 / len(sample.X)
    return transcript.add_noise(total, gaussians(multiplier), moved, "mean")
