"""The choice of the sparsity: keywords that sparse estimators share, and what all ways of choosing use.

``None``                        ``sparsity``, as given
``"noise_level"``               of ``sparsity`` released values, those that noise does not explain; free
``"holdout"``                   one of a grid, by a private choice on rows that were held out
``"cross_validation"``          one of a grid, by a private choice among private models of five folds
``"printed_cross_validation"``  as paper A, section 5.2: not private

``sparsity`` is the largest number considered. A fit at that number gives all smaller models at once, by
keeping the entries of largest magnitude (:func:`nested_models`): post-processing of what was released.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.errors import InputError
from dpalgos.nonprivate.sparse_sample_mean import hard_threshold
from dpalgos.params import PrivateParams, checked, choice, count, positive
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import truncate
from dpalgos.tuning.truncation import share
from dpalgos.typing import BoolArray, FloatArray, IntArray

LABEL = "sparsity"
N_FOLDS = 5

_CHOICES = (None, "noise_level", "holdout", "cross_validation", "printed_cross_validation")
_CHOICE_PART = 0.2  # of what tuning by cross-validation takes; the folds' fits divide the rest
_EIGHTHS = np.arange(2, 9) / 8  # of the largest: 10, 15, …, 40 where that is 40

# A private fit at the largest sparsity: rows -> released path (d, R).
Fit = Callable[[Sample], FloatArray]


def _check_grid(name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    array = np.asarray(value)
    if array.ndim == 1 and array.dtype.kind in "iu" and array.size and len(set(array.tolist())) == len(array):
        return tuple(int(entry) for entry in array)
    raise InputError(f"{name} must be a list of different whole numbers, got {value!r}; pass e.g. [10, 20]")


@dataclass(frozen=True, kw_only=True)
class SparsityParams(PrivateParams):
    """Keywords of estimators whose sparsity can be chosen."""

    sparsity: int = count(
        "s, number of non-zero entries of the answer; with a choice, the largest considered"
    )
    sparsity_choice: str | None = choice(
        "None: sparsity as given; 'noise_level': drop values that noise alone explains, free; 'holdout', "
        "'cross_validation': a private choice from the grid; 'printed_cross_validation': not private "
        "(calibration='paper' only)",
        _CHOICES,
        default=None,
    )
    sparsity_grid: tuple[int, ...] | None = checked(
        "numbers to choose from; None: 2/8, 3/8, … 8/8 of sparsity", _check_grid, default=None
    )
    sparsity_share: float = share("the choice (with its folds' models)", default=0.1)
    loss_bound: float | None = positive(
        "τ: the loss of a row is truncated at it; None: the estimator's own", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.sparsity_grid or ():
            if not 1 <= value <= self.sparsity:
                raise InputError(
                    f"sparsity_grid must lie within 1 and sparsity = {self.sparsity}, got {value}; "
                    "take it out, or pass a larger sparsity"
                )
        needed = {"holdout": "tight", "cross_validation": "tight", "printed_cross_validation": "paper"}
        calibration = needed.get(self.sparsity_choice or "", self.calibration)
        if calibration != self.calibration:
            raise InputError(
                f"sparsity_choice must not be {self.sparsity_choice!r} for "
                f"calibration={self.calibration!r}; use calibration={calibration!r}"
            )

    @property
    def grid(self) -> tuple[int, ...]:
        """The numbers to choose from, ascending."""
        whole = np.unique(np.maximum(np.rint(self.sparsity * _EIGHTHS), 1).astype(int))
        return tuple(sorted(self.sparsity_grid or whole.tolist()))

    @property
    def choice_shares(self) -> tuple[float, ...]:
        """The shares of the choice and of each fit: one for hold-out; else five folds' and the last."""
        if self.sparsity_choice == "holdout":
            return self.sparsity_share, 1 - self.sparsity_share
        of_a_fold = (1 - _CHOICE_PART) * self.sparsity_share / N_FOLDS
        return _CHOICE_PART * self.sparsity_share, *[of_a_fold] * N_FOLDS, 1 - self.sparsity_share


@dataclass(frozen=True, eq=False)
class Fold:
    """A fifth of every replicate's rows, by their index, and a sample ``train`` of the others.

    ``weights`` (k, R), or (k, 1), are 1 where a replicate tests on a row of ``X``, ``y``.
    """

    train: Sample
    X: FloatArray
    y: FloatArray
    weights: FloatArray


def fold(sample: Sample, k: int) -> Fold:
    """Return fold k of 0 … 4: of a replicate's rows, a fifth in the order of their index.

    A single row is in the last fold, and trains too.
    """
    mask = np.ones((len(sample.X), 1), dtype=bool) if sample.row_mask is None else sample.row_mask
    tested = mask & ((np.cumsum(mask, axis=0) * N_FOLDS - 1) // mask.sum(axis=0) == k)
    rows = np.flatnonzero(tested.any(axis=1))
    y = np.zeros(len(sample.X)) if sample.y is None else sample.y
    return Fold(_without(sample, mask, tested), sample.X[rows], y[rows], tested[rows].astype(float))


def _without(sample: Sample, mask: BoolArray, tested: BoolArray) -> Sample:
    kept = mask & ~tested
    kept |= mask & ~kept.any(axis=0)
    if sample.row_mask is not None:
        return sample.derived(row_mask=kept)
    return sample.derived(rows=kept[:, 0])


class Loss(ABC):
    """A loss of single rows, truncated to an interval, by which models are compared."""

    @property
    @abstractmethod
    def length(self) -> float:
        """Length of the interval: how far a row moves the sum of the losses, at most."""

    def mean_sensitivity(self, n_rows: FloatArray) -> FloatArray:
        """Return L/n: given the models, a row moves the mean loss of each by the length at most."""
        return np.asarray(self.length / n_rows)

    @abstractmethod
    def total(self, tested: Fold, models: list[FloatArray]) -> FloatArray:
        """Return the sums over tested rows, (len(models), R), for nested models (d, R), the largest last."""


@dataclass(frozen=True)
class MeanLoss(Loss):
    """The squared error of a row x under a mean m_s, less that under the largest model m: in ±τ.

    (‖x − m_s‖² − ‖x − m‖²) depends on the entries that m_s drops only: Σ m_j (2 x_j − m_j) over them.
    """

    bound: float

    @property
    def length(self) -> float:
        """2τ: a row of −τ against one of τ."""
        return 2 * self.bound

    def total(self, tested: Fold, models: list[FloatArray]) -> FloatArray:
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
        """τ: a row that fits against one that does not."""
        return self.bound

    def total(self, tested: Fold, models: list[FloatArray]) -> FloatArray:
        y = truncate(tested.y, self.response_bound)[:, None]
        used = np.flatnonzero(models[-1].any(axis=1))  # the largest model's columns are everybody's
        rows = tested.X[:, used]
        losses = [np.minimum((y - rows @ model[used]) ** 2 / 2, self.bound) for model in models]
        return np.array([(loss * tested.weights).sum(axis=0) for loss in losses])


def nested_models(path: FloatArray, grid: tuple[int, ...]) -> list[FloatArray]:
    """Return the models (d, R) that keep the s entries of largest magnitude, for every s of the grid."""
    return [hard_threshold(path, s) for s in grid]


def take_model(models: list[FloatArray], chosen: IntArray) -> FloatArray:
    """Return each replicate's chosen model, (d, R)."""
    return np.asarray(np.stack(models)[chosen, :, np.arange(models[0].shape[1])].T)
