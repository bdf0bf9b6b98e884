"""The choice of the sparsity by cross-validation, as printed in paper A; not private.

Two studies run it to show that it fails. No other form of an estimator uses this file.

``sparsity`` is the maximum. The grid is 2/8, 3/8, … 8/8 of it. A fit at the maximum gives all smaller models:
keep the entries of largest magnitude. Losses are truncated to an interval of length L: τ, or 2τ for a loss of
either sign.

CV(s) is the mean loss of all rows, each under the model of the other folds with s entries. These models are
not private. CV is assumed to move by τ/n. However, a row trains the models of four folds. Replacing it moves
its own loss *and* the losses of 4n/5 rows, by τ (4/5 + 1/n) in all (attained). Therefore the printed method
has too little noise by a factor of about 0.8 n. With the true sensitivity, the mechanism would choose at
random. The record has an unprotected event, which certifies nothing.

Reference: Cai, Wang & Zhang, The Cost of Privacy, section 5.2.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpalgos.accounting.other_events import UNPROTECTED, Selection
from dpalgos.catalog import Release
from dpalgos.central.dp_sparse_glm import SparseDescent, projected
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import interval
from dpalgos.models.estimators import SparsityEstimator
from dpalgos.models.families import Family
from dpalgos.models.newton_steps import hard_threshold
from dpalgos.models.risk import wide_gradient
from dpalgos.rows.products import truncate
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.tuning.truncation import unbounded_sensitivity
from dpalgos.typing import BoolArray, FloatArray

CHOICE = Release("printed cross-validation", unbounded_sensitivity)
PLAN: Plan = {CHOICE.label: UNPROTECTED}
N_FOLDS = 5

_EIGHTHS = np.arange(2, 9) / 8  # paper A chooses from 10, 15, …, 40


def choose_of_means(rows: Rows, spend: Spend, estimator: SparsityEstimator, bound: float) -> FloatArray:
    """Return the sparse mean of rows that are truncated to ±bound, at a sparsity chosen as printed."""

    def models(sample: Sample) -> list[FloatArray]:
        part = Rows.of_sample(sample, is_batch=True)
        means = np.broadcast_to(
            part.by_column(clipped_mean(part, truncate, bound)), (part.d, sample.n_replicates)
        )
        return [hard_threshold(means, s) for s in grid(estimator.sparsity)]

    def losses(tested: Fold, models: list[FloatArray]) -> Iterator[FloatArray]:
        return mean_losses(bound**2, tested, models)

    return _choose(rows, spend, estimator, models, losses, length=2 * bound**2)  # losses are in ± R²


def choose_of_descents(
    rows: Rows,
    spend: Spend,
    estimator: SparsityEstimator,
    *,
    descent: SparseDescent,
    family: Family,
    response_bound: float,
) -> FloatArray:
    """Return the sparse coefficients at a sparsity chosen as printed, by descents without noise."""
    length = response_bound**2 / 2

    def losses(tested: Fold, models: list[FloatArray]) -> Iterator[FloatArray]:
        return response_losses(response_bound, length, tested, models)

    return _choose(
        rows, spend, estimator, lambda sample: thresholded_descents(sample, descent, family), losses, length
    )


def grid(sparsity: int) -> tuple[int, ...]:
    """Return the numbers to choose from, ascending."""
    return tuple(np.unique(np.maximum(np.rint(sparsity * _EIGHTHS), 1).astype(int)).tolist())


def thresholded_descents(sample: Sample, descent: SparseDescent, family: Family) -> list[FloatArray]:
    """Return what the steps of a descent give without noise, within its bounds, for every s of the grid."""
    sizes = grid(descent.sparsity)
    n = len(sizes)
    mask = None if sample.row_mask is None else np.repeat(sample.row_mask, n, axis=1)
    wide = sample.derived(row_mask=mask, n_replicates=sample.n_replicates * n)
    gradient = wide_gradient(wide, Design(wide, descent.covariate_bound, single=True), family)
    coef: FloatArray = np.zeros((sample.n_features, wide.n_replicates))
    for _ in range(descent.n_iterations):
        step_end = coef - descent.step * gradient(coef)
        for g, s in enumerate(sizes):
            coef[:, g::n] = projected(descent, hard_threshold(step_end[:, g::n], s))
    return [coef[:, g::n] for g in range(n)]


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
    training_mask = mask & ~tested
    training_mask |= mask & ~training_mask.any(axis=0)
    if sample.row_mask is not None:
        return sample.derived(row_mask=training_mask)
    return sample.derived(rows=training_mask[:, 0])


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


def fold_losses(sample: Sample, models: Callable[[Sample], list[FloatArray]], losses: Losses) -> FloatArray:
    """Return n CV of every model of the grid, (len(grid), R); ``models`` trains on four folds."""
    total: FloatArray | float = 0.0
    for k in range(N_FOLDS):
        part = fold(sample, k)
        each = losses(part, models(part.train))
        total = total + np.array([(loss * part.weights).sum(axis=0) for loss in each])
    return np.asarray(total)


def _choose(
    rows: Rows,
    spend: Spend,
    estimator: SparsityEstimator,
    models: Callable[[Sample], list[FloatArray]],
    losses: Losses,
    length: float,
) -> FloatArray:
    """Return the estimate at a sparsity chosen as printed; it is not private, and the record states this.

    ``models`` maps rows to the models of the grid, without privacy. ``length`` is that of the interval of
    losses: the change by one row that the paper assumes. The estimator runs at the chosen sparsity.
    """
    sample = rows.sample
    totals = fold_losses(sample, models, losses)

    def draw() -> FloatArray:
        drawn = np.empty((sample.n_features, sample.n_replicates))
        for r in range(sample.n_replicates):
            part = sample.derived(
                rows=None if sample.row_mask is None else sample.row_mask[:, r], n_replicates=1
            )
            inner = Spend(spend.noise.select(slice(r, r + 1)))
            inner.start({"sparsity": Selection(estimator.epsilon)}, {"sparsity": (interval,)})
            scores = interval.of(-totals[:, r] / part.n_rows, length, part.n_rows)
            sparsity = grid(estimator.sparsity)[inner.choose("sparsity", scores)[0]]
            drawn[:, r] = replace(estimator, sparsity=sparsity, sparsity_choice=None).run(part, inner)[:, 0]
        return drawn

    return rows.by_replicate(spend.release(CHOICE.label, -totals / sample.n_rows, draw))
