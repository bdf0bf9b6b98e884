"""A released mean response of events or counts: its predictor, and whether slopes are worth their noise.

A positive mean m is released as r = m + noise of standard deviation s. Its estimate is the mean of the
normal distribution N(r, s²) truncated to positive values. It approaches r if r is far above s:

    s (z + φ(z)/Φ(z)),   z = r/s

For events m is the share of the rarer label. Slopes are worth their noise where

    m > k max(s, B √d/(nμ)),   k = 6 and B = 1 for events; k = 5 and B the largest response for counts:

a score of d coordinates has √d times the noise of one number. Nothing here reads a row.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from dpalgos.models.families import Family
from dpalgos.release.spend import Noisy

_ENOUGH, _ENOUGH_EVENTS = 5.0, 6.0  # noise standard deviations at which slopes are worth their noise
_NORMAL = 1.96
_TINY = float(np.finfo(float).tiny)


def positive_mean(released: float, std: float) -> float:
    """Return E[m | m > 0] for m ~ N(released, std²)."""
    z = released / std
    log_ratio = -(z**2) / 2 - np.log(2 * np.pi) / 2 - scipy.special.log_ndtr(z)
    return float(max(std * (z + np.exp(log_ratio)), _TINY))


@dataclass(frozen=True)
class MeanResponse:
    """A mean of responses cut at ``largest``, ``released`` with noise of standard deviation ``std``."""

    family: Family
    released: float
    std: float
    largest: float = 1.0

    @property
    def mean(self) -> float:
        """The mean response, or the share of the rarer label."""
        if not self.family.has_events:
            return positive_mean(self.released, self.std)
        return min(positive_mean(min(self.released, 1 - self.released), self.std), 0.5)

    @property
    def predictor(self) -> float:
        """The linear predictor at the mean response: the link function of the mean."""
        if not self.family.has_events:
            return float(np.log(self.mean))
        log_odds = float(np.log(self.mean / (1 - self.mean)))
        return log_odds if self.released < 0.5 else -log_odds

    @property
    def is_unsure(self) -> bool:
        """Whether the mean is not known within a factor of two, at 95%."""
        return _NORMAL * self.std > self.mean / 2

    @property
    def residual_unit(self) -> float:
        """The unit of residuals of counts."""
        return max(self.mean, 1.0)

    @property
    def least_threshold(self) -> float:
        """The minimum of thresholds of scores of counts, over √d.

        The scores of rare counts are not clipped below their own size: that would bias the intercept.
        """
        return max(1 - 2 * self.mean, 0.0)

    def hides_slopes(self, size: float, n_features: int) -> bool:
        """Return whether slopes are not worth their noise; ``size`` is nμ."""
        noise = max(self.std, self.largest * float(np.sqrt(n_features)) / size)
        return self.mean < (_ENOUGH_EVENTS if self.family.has_events else _ENOUGH) * noise

    def after(self, again: Noisy) -> "MeanResponse":
        """Return the precision-weighted mean of this release and another one."""
        precision, other = self.std**-2, float(again.std) ** -2
        mean = (precision * self.released + other * float(again.value)) / (precision + other)
        return replace(self, released=mean, std=float((precision + other) ** -0.5))
