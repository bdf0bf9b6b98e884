"""Losses of single rows, truncated to an interval, by which models of different sparsity are compared."""

from dataclasses import dataclass

import numpy as np

from dpalgos.steps.clipping import truncate
from dpalgos.tuning.sparsity import Fold, Loss
from dpalgos.typing import FloatArray


@dataclass(frozen=True)
class MeanLoss(Loss):
    """The squared error of a row x under a mean m_s, less that under the largest model m: in ±τ.

    (‖x − m_s‖² − ‖x − m‖²) depends on the entries that m_s drops only: Σ m_j (2 x_j − m_j) over them.
    """

    bound: float

    @property
    def length(self) -> float:
        """Return 2τ: a row of −τ against one of τ."""
        return 2 * self.bound

    def total(self, tested: Fold, models: list[FloatArray]) -> FloatArray:
        """Return the sums over tested rows, (len(models), R)."""
        largest = models[-1]
        sums = np.zeros((len(models), largest.shape[1]))
        for row, model in zip(sums, models, strict=True):
            dropped = largest - model
            used = np.flatnonzero(dropped.any(axis=1))
            loss = 2 * tested.X[:, used] @ dropped[used] - (dropped**2).sum(axis=0)
            row[:] = (truncate(loss, self.bound) * tested.weights).sum(axis=0)
        return sums


@dataclass(frozen=True)
class ResponseLoss(Loss):
    """Half the squared residual of a truncated response: ½ (Π_R(y) − x'β)², in [0, τ]."""

    response_bound: float
    bound: float

    @property
    def length(self) -> float:
        """Return τ: a row that fits against one that does not."""
        return self.bound

    def total(self, tested: Fold, models: list[FloatArray]) -> FloatArray:
        """Return the sums over tested rows, (len(models), R)."""
        y = truncate(tested.y, self.response_bound)[:, None]
        used = np.flatnonzero(models[-1].any(axis=1))  # the largest model's columns are everybody's
        rows = tested.X[:, used]
        losses = [np.minimum((y - rows @ model[used]) ** 2 / 2, self.bound) for model in models]
        return np.array([(loss * tested.weights).sum(axis=0) for loss in losses])
