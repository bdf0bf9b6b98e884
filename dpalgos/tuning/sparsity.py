"""The choice of the sparsity: keywords of sparse estimators, and the methods of choosing.

- ``None``: ``sparsity`` as given.
- ``"noise_level"``: those of ``sparsity`` released values that noise does not explain, at no cost.
- ``"printed_cross_validation"``: as in paper A, section 5.2; not private.

``sparsity`` is the maximum. The grid is 2/8, 3/8, … 8/8 of it. A fit at the maximum gives all smaller models:
keep the entries of largest magnitude. Losses are truncated to an interval of length
L: τ, or 2τ for a loss of either sign.

**As printed** (Cai, Wang & Zhang, The Cost of Privacy, section 5.2). CV(s) is the mean loss of all rows, each
under the model of the other folds with s entries. These models are not private. CV is assumed to move by τ/n.
However, a row trains the models of four folds. Replacing it moves its own loss *and* the losses of 4n/5 rows,
by τ (4/5 + 1/n) in all (attained). Therefore the printed method has too little noise by a factor of about
0.8 n. With the true sensitivity, the mechanism would choose at random. :func:`as_printed` records an
unprotected event, which certifies nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from dpalgos.accounting.events import UnprotectedEvent
from dpalgos.catalog import Release
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.rows import Rows
from dpalgos.core.slots import Plan, Proved, Selection
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import interval, unbounded_sensitivity
from dpalgos.params import choice, count
from dpalgos.rows.clipping import truncate
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray

N_FOLDS = 5
PRINTED_CHOICE = Release("printed cross-validation", unbounded_sensitivity)
PRINTED_PLAN: Plan = {PRINTED_CHOICE.label: Proved(UnprotectedEvent(label=""))}

_EIGHTHS = np.arange(2, 9) / 8  # paper A chooses from 10, 15, …, 40


@dataclass(frozen=True, kw_only=True)
class SparsityEstimator(PrivateEstimator):
    """Keywords of estimators whose sparsity can be chosen."""

    sparsity: int = count("s, number of non-zero coefficients; with a choice, the maximum")
    sparsity_choice: str | None = choice(
        "None: sparsity as given; 'noise_level': drop values that noise alone explains, at no cost; "
        "'printed_cross_validation': not private (calibration='paper' only)",
        (None, "noise_level", "printed_cross_validation"),
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_printed and self.calibration != "paper":
            raise InputError(
                f"sparsity_choice must not be {self.sparsity_choice!r} for "
                f"calibration={self.calibration!r}; use calibration='paper'"
            )

    @property
    def is_printed(self) -> bool:
        return self.sparsity_choice == "printed_cross_validation"

    @property
    def grid(self) -> tuple[int, ...]:
        """The numbers to choose from, ascending."""
        return tuple(np.unique(np.maximum(np.rint(self.sparsity * _EIGHTHS), 1).astype(int)).tolist())


@dataclass(frozen=True, eq=False)
class Fold:
    """A fifth of every replicate's rows, by their index, and a sample ``train`` of the other rows.

    ``weights``, (k, R) or (k, 1), is 1 if a replicate tests on a row of ``X``, ``y``.
    """

    train: Sample
    X: FloatArray
    y: FloatArray
    weights: FloatArray


def fold(sample: Sample, k: int) -> Fold:
    """Return fold k of 0 … 4: a fifth of a replicate's rows, in the order of their index.

    If there is only one row, it is in the last fold, and also in the training rows.
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


# (a fold, nested models (d, R), the largest last) → the losses of the tested rows, (k, R), for each model.
Losses = Callable[[Fold, list[FloatArray]], Iterable[FloatArray]]


def mean_losses(bound: float, tested: Fold, models: list[FloatArray]) -> Iterator[FloatArray]:
    """Yield the squared error of a row x under a mean m_s, minus that under the largest model m: in ±τ.

    (‖x − m_s‖² − ‖x − m‖²) depends only on the entries that m_s drops: Σ m_j (2 x_j − m_j) over them.
    """
    for model in models:
        dropped = models[-1] - model
        used = np.flatnonzero(dropped.any(axis=1))
        yield truncate(2 * tested.X[:, used] @ dropped[used] - (dropped**2).sum(axis=0), bound)


def response_losses(
    response_bound: float, bound: float, tested: Fold, models: list[FloatArray]
) -> Iterator[FloatArray]:
    """Yield half the squared residual of a truncated response: ½ (Π_R(y) − x'β)², in [0, τ]."""
    y = truncate(tested.y, response_bound)[:, None]
    used = np.flatnonzero(models[-1].any(axis=1))  # all models use columns of the largest model
    rows = tested.X[:, used]
    for model in models:
        yield np.minimum((y - rows @ model[used]) ** 2 / 2, bound)


P = TypeVar("P", bound=SparsityEstimator)


def fold_losses(sample: Sample, models: Callable[[Sample], list[FloatArray]], losses: Losses) -> FloatArray:
    """Return n CV of every model of the grid, (len(grid), R); ``models`` trains on four folds."""
    total: FloatArray | float = 0.0
    for k in range(N_FOLDS):
        part = fold(sample, k)
        each = losses(part, models(part.train))
        total = total + np.array([(loss * part.weights).sum(axis=0) for loss in each])
    return np.asarray(total)


def as_printed(
    rows: Rows,
    spend: Spend,
    params: P,
    models: Callable[[Sample, P], list[FloatArray]],
    losses: Losses,
    length: float,
) -> FloatArray:
    """Return the estimate at a sparsity chosen as printed; it is not private, and the record states this.

    ``models`` maps rows to the models of the grid, without privacy. ``length`` is that of the interval of
    losses: the change by one row that the paper assumes. The estimator runs at the chosen sparsity.
    """
    sample = rows.sample
    totals = fold_losses(sample, lambda rows: models(rows, params), losses)

    def draw() -> FloatArray:
        drawn = np.empty((sample.n_features, sample.n_replicates))
        for r in range(sample.n_replicates):
            part = sample.derived(
                rows=None if sample.row_mask is None else sample.row_mask[:, r], n_replicates=1
            )
            inner = Spend(spend.noise.select(slice(r, r + 1)))
            inner.start({"sparsity": Selection(params.epsilon)}, {"sparsity": (interval,)})
            scores = interval.of(-totals[:, r] / part.n_rows, length, part.n_rows)
            chosen = inner.choose("sparsity", scores)
            settings = replace(params, sparsity=params.grid[chosen[0]], sparsity_choice=None)
            drawn[:, r] = settings.run(part, inner)[:, 0]
        return drawn

    return rows.by_replicate(spend.release(PRINTED_CHOICE.label, -totals / sample.n_rows, draw))
