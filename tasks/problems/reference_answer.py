"""The non-private estimate that others are compared with, without what it cannot estimate.

If the likelihood has no maximum, the columns and classes that cause it are left out. Examples are a column of
0 and 1 at whose 1 a class never occurs, and a class that a line separates from the others. Their coefficients
grow without limit. They are left out one after the other, the rarer of column and class first, until the rest
has an estimate.
"""

from dataclasses import dataclass, replace

import numpy as np

import dpalgos
from dpalgos.models.families import get_family
from dpalgos.rows.units import PrivacyUnits
from tasks.cells import Cell, Replicates
from tasks.problems.problem import Draw, fit_cell


@dataclass(frozen=True, eq=False, kw_only=True)
class ReferenceAnswer:
    """A non-private estimate, and the columns (d,) and classes (K,) that it has coefficients of."""

    coef: np.ndarray
    columns: np.ndarray
    classes: np.ndarray

    @property
    def is_whole(self) -> bool:
        return bool(self.columns.all() and self.classes.all())


def fit_without(columns: np.ndarray, draw: Draw, cell: Cell, replicates: Replicates) -> dpalgos.Result:
    """Return a cell's estimate; non-private estimators do without the columns that have no estimate."""
    if dpalgos.get_estimator(cell.estimator).private or columns.all():
        return fit_cell(draw, cell, replicates)
    own = draw.sample
    sample = dpalgos.Sample(own.X[:, columns], own.y, row_mask=own.row_mask, n_replicates=own.n_replicates)
    result = fit_cell(replace(draw, sample=sample), cell, replicates)
    estimate = np.zeros((len(columns), *result.estimate.shape[1:]))
    estimate[columns] = result.estimate
    return replace(result, estimate=estimate)


def with_weights(sample: dpalgos.Sample, weights: np.ndarray | None) -> dpalgos.Sample:
    """Return the same rows with weights (n,), for estimators without privacy."""
    if weights is None:
        return sample
    return sample.with_units(PrivacyUnits(None, weights, float(len(weights))))


def reference_answer(
    X: np.ndarray,
    y: np.ndarray,
    family: str,
    n_classes: int | None,
    offset_bounds: tuple[float, float] | None = None,
    weights: np.ndarray | None = None,
) -> ReferenceAnswer:
    """Return the maximum of the weighted likelihood, without the columns and classes that have none."""
    from dpalgos.core.rows import Rows
    from dpalgos.models.risk import Risk, minimize  # only likelihoods are maximized

    columns = np.ones(X.shape[1], dtype=bool)
    counts = np.bincount(y.astype(int), minlength=n_classes) if n_classes else np.zeros(1, dtype=int)
    classes = counts > 0 if n_classes else np.ones(1, dtype=bool)
    low, high = X.min(axis=0), X.max(axis=0)
    while True:
        rows = classes[y.astype(int)] if n_classes else np.ones(len(y), dtype=bool)
        labels = (np.cumsum(classes) - 1)[y[rows].astype(int)] if n_classes else y[rows]
        reduced_family = get_family(family, n_classes=int(classes.sum()) if n_classes else None)
        sample = with_weights(
            dpalgos.Sample(X[rows][:, columns], labels), weights if weights is None else weights[rows]
        )
        sample = sample.with_offset(offset_bounds) if offset_bounds else sample
        minimum = minimize(Risk(reduced_family, Rows.of_sample(sample)))
        coef, estimated = np.zeros((len(columns), len(classes))), columns.copy()
        estimated[0] &= offset_bounds is None
        coef[np.ix_(estimated, classes)] = minimum.coef[..., 0].reshape(estimated.sum(), -1)
        if minimum.converged.all():
            coef[~estimated & columns] = 1.0
            return ReferenceAnswer(coef=coef if n_classes else coef[:, 0], columns=columns, classes=classes)
        # What grows without end moves the linear predictor farthest; an intercept moves nothing.
        reach = np.abs(coef) * (high - low)[:, None]
        if not reach.any():
            raise dpalgos.InputError(
                f"y must have an estimate for family={family!r}, but has none even without covariates"
            )
        column, its_class = np.unravel_index(np.argmax(reach), reach.shape)
        at_high = X[rows][:, column] == high[column]
        at_low = X[rows][:, column] == low[column]
        two_values = bool((at_high | at_low).all())
        rarer = min(at_high.sum(), at_low.sum()) if two_values else len(labels)
        if n_classes and classes.sum() > 2 and counts[its_class] < rarer:
            classes[its_class] = False
        else:
            columns[column] = False
