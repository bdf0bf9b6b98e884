"""Rows of data with replicates as a trailing axis, validated once.

Replicates share X and y and differ in which rows they use. Two views serve the estimators:
weighted second moments of all replicates as one matrix product, and groups of a few replicates
whose (rows × replicates) arrays stay in the processor's cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpalgos.errors import InputError
from dpalgos.typing import BoolArray, FloatArray, IntArray

# Beyond this, squares of squares overflow, and an overflow would show a single row through all clipping.
LARGEST_VALUE = 1e60

# Elements of one (rows × replicates) array that fit the cache beside their companions.
_GROUP_ELEMENTS = 160_000
# Elements of a block of rows that is truncated in passing.
_BLOCK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Group:
    """Some replicates and the rows that any of them uses.

    Attributes
    ----------
    replicates : slice
        Which replicates.
    rows : (n_group,) index array or slice
        Which rows of the sample.
    weights : (n_group, R_group) or (n_group, 1) array
        1 where a replicate uses a row, else 0.
    """

    replicates: slice
    rows: slice | IntArray
    X: FloatArray
    y: FloatArray
    weights: FloatArray


class Sample:
    """Validated data for ``n_replicates`` replicates.

    Parameters
    ----------
    X : (n, d) array_like
        Finite numbers.
    y : (n,) array_like or None
        Finite numbers; None for tasks without a response.
    row_mask : (n, R) or (n,) bool array, optional
        The rows that each replicate uses; all rows if omitted.
    n_replicates : int
        R.

    Raises
    ------
    InputError
        Names the argument and what is wrong with it, never a value of the data. Whether data are refused
        depends on them, and is outside every guarantee.
    """

    def __init__(
        self, X: object, y: object = None, *, row_mask: object = None, n_replicates: int = 1
    ) -> None:
        self.X = _finite_array("X", X, n_dimensions=2)
        n, d = self.X.shape
        if n == 0 or d == 0:
            raise InputError(f"X must have at least one row and one column, got shape {(n, d)}")
        self.y = None if y is None else _finite_array("y", y, n_dimensions=1)
        if self.y is not None and len(self.y) != n:
            raise InputError(f"y must have one entry per row of X, got {len(self.y)} entries for {n} rows")
        self.n_replicates = n_replicates
        self.row_mask = None if row_mask is None else _checked_mask(row_mask, n, n_replicates)

    def derived(
        self,
        *,
        rows: BoolArray | None = None,
        row_mask: BoolArray | None = None,
        n_replicates: int | None = None,
    ) -> "Sample":
        """Return a sample of the same data, or of some rows (n,) of it, which are not validated again.

        ``row_mask`` and ``n_replicates`` are the new sample's own; no mask, and as many as here, if omitted.
        """
        taken = object.__new__(Sample)
        taken.X = self.X if rows is None else self.X[rows]
        taken.y = self.y if self.y is None or rows is None else self.y[rows]
        taken.n_replicates = self.n_replicates if n_replicates is None else n_replicates
        taken.row_mask = row_mask
        return taken

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.X.shape[1])

    @cached_property
    def n_rows(self) -> FloatArray:
        """Number of rows that each replicate uses, (R,)."""
        if self.row_mask is None:
            return np.full(self.n_replicates, float(len(self.X)))
        return np.asarray(self.row_mask.sum(axis=0), dtype=float)

    def response(self) -> FloatArray:
        """Return y, or refuse if there is none."""
        if self.y is None:
            raise InputError("y is required by this estimator, got None; pass the responses as an (n,) array")
        return self.y

    def means(self, Z: FloatArray) -> FloatArray:
        """Return the means of the rows of Z (n, k) that each replicate uses, as a (k, R) array."""
        if self.row_mask is None:
            return np.repeat(Z.mean(axis=0)[:, None], self.n_replicates, axis=1)
        return np.asarray(Z.T @ self._float_mask / self.n_rows)

    def second_moments(self, Z: FloatArray) -> FloatArray:
        """Return the sums of z z' over each replicate's rows, as an (R, p, p) array.

        All replicates are one matrix product: (p(p+1)/2 products of columns) × (row mask).
        """
        p = Z.shape[1]
        if self.row_mask is None:
            return np.broadcast_to(Z.T @ Z, (self.n_replicates, p, p))
        first, second = np.triu_indices(p)
        products = Z[:, first] * Z[:, second]
        packed = self._float_mask.T @ products
        moments = np.empty((self.n_replicates, p, p))
        moments[:, first, second] = packed
        moments[:, second, first] = packed
        return moments

    def groups(self) -> Iterator[Group]:
        """Yield the replicates in cache-sized groups, each with only the rows that it uses."""
        y = np.zeros(len(self.X)) if self.y is None else self.y
        n = len(self.X)
        step = max(1, min(self.n_replicates, max(8, _GROUP_ELEMENTS // n)))
        for start in range(0, self.n_replicates, step):
            chosen = slice(start, min(start + step, self.n_replicates))
            if self.row_mask is None:
                yield Group(chosen, slice(None), self.X, y, np.ones((n, 1)))
                continue
            mask = self.row_mask[:, chosen]
            used = np.flatnonzero(mask.any(axis=1))
            yield Group(chosen, used, self.X[used], y[used], mask[used].astype(float))

    @cached_property
    def _float_mask(self) -> FloatArray:
        assert self.row_mask is not None
        return self.row_mask.astype(float)


class Design:
    """The rows of a sample with entries truncated to a box, as two matrix products for all replicates.

    Truncated rows are made block by block where a product needs them, and not at all if no entry leaves the
    box, so that a wide design is never held twice.

    Parameters
    ----------
    sample : Sample
        Whose rows.
    bound : float or None
        Entries are truncated to ± this; None: as they are.
    """

    def __init__(self, sample: Sample, bound: float | None = None) -> None:
        self._sample = sample
        self._blocks = [
            slice(start, start + max(1, _BLOCK_ELEMENTS // sample.n_features))
            for start in range(0, len(sample.X), max(1, _BLOCK_ELEMENTS // sample.n_features))
        ]
        self._bound = None if bound is None or not self._leaves_the_box(bound) else bound
        self._weights = None if sample.row_mask is None else sample.row_mask.astype(float)

    def columns(self, chosen: IntArray) -> FloatArray:
        """Return some columns, (n, k)."""
        taken = self._sample.X[:, chosen]
        return taken if self._bound is None else np.clip(taken, -self._bound, self._bound)

    def predict(self, coef: FloatArray) -> FloatArray:
        """Return X B for coefficients (d, R), (n, R), touching only the columns that some replicate uses."""
        used = np.flatnonzero(coef.any(axis=1))
        if self._bound is None and 4 * len(used) >= len(coef):
            return np.asarray(self._sample.X @ coef)
        return np.asarray(self.columns(used) @ coef[used])

    def mean_product(self, values: FloatArray) -> FloatArray:
        """Return the mean of x_i v_i over each replicate's rows for values (n, R), (d, R)."""
        if self._weights is not None:
            values = values * self._weights
        if self._bound is None:
            return np.asarray(self._sample.X.T @ values / self._sample.n_rows)
        total = np.zeros((self._sample.n_features, values.shape[1]))
        for block in self._blocks:
            total += np.clip(self._sample.X[block], -self._bound, self._bound).T @ values[block]
        return np.asarray(total / self._sample.n_rows)

    def mean_square(self, values: FloatArray) -> FloatArray:
        """Return the mean of v_i² over each replicate's rows for values (n, R), (R,)."""
        squares = values**2 if self._weights is None else values**2 * self._weights
        return np.asarray(squares.sum(axis=0) / self._sample.n_rows)

    def _leaves_the_box(self, bound: float) -> bool:
        X = self._sample.X
        return any(X[block].max() > bound or X[block].min() < -bound for block in self._blocks)


def _finite_array(name: str, values: object, *, n_dimensions: int) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        raise InputError(f"{name} must hold numbers, got dtype {array.dtype}; convert it to float first")
    if array.ndim != n_dimensions:
        expected = "(n, d)" if n_dimensions == 2 else "(n,)"
        raise InputError(f"{name} must have shape {expected}, got {array.ndim} dimension(s)")
    converted: FloatArray = np.ascontiguousarray(array, dtype=np.float64)
    bad = converted.size - int(np.isfinite(converted).sum())
    if bad:
        raise InputError(
            f"{name} must be finite, got {bad} NaN or infinite value(s); drop or repair those rows first"
        )
    if converted.size and np.abs(converted).max() > LARGEST_VALUE:
        raise InputError(f"{name} must lie within ±{LARGEST_VALUE:g}, got a larger value; change its unit")
    return converted


def _checked_mask(row_mask: object, n: int, n_replicates: int) -> BoolArray:
    mask = np.asarray(row_mask)
    if mask.dtype != np.bool_:
        raise InputError(f"row_mask must be a boolean array, got dtype {mask.dtype}")
    if mask.ndim == 1 and n_replicates == 1:
        mask = mask[:, None]
    if mask.shape != (n, n_replicates):
        raise InputError(f"row_mask must have shape (n, replicates) = {(n, n_replicates)}, got {mask.shape}")
    if not mask.any(axis=0).all():
        raise InputError("row_mask must give every replicate at least one row, got a column without any")
    return mask
