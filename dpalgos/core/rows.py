"""Rows in blocks, whose sums alone hold the weights of rows.

A query is a function of a :class:`Block`. It says what each row adds, within a public bound. ``total``,
``products``, ``moments`` and ``count`` of the block add it up, with the weight of each row. Masks of
replicates and weights of people are weights of rows, so queries contain no weight.

**Units of privacy.** If the weights of a person's rows sum to at most 1, the person adds a point of the
convex hull of what one row may add. So the bound for replacing a row is that for replacing a person
(:mod:`dpalgos.rows.units`).

**Replicates.** Vectors lie along the last axis. In a batch of R replicates, all arrays that were summed or
released have a leading axis: (p,) becomes (R, p), or (1, p) if it is the same for all replicates. An
estimator that indexes with ``...`` serves both: ``moments[..., :d, d]``. If masks leave out most rows, the
blocks of :meth:`Rows.map` have the rows of each replicate, (R, n, d), and no weights.

**Streams.** Where rows are streamed, each pass reads its blocks anew, and partial sums of partitions may be
computed in other processes. A query must not read ``rows`` or ``spend``: they would be sent along.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.rows.clipping import clip_rows_l2, truncate
from dpalgos.rows.group import Group
from dpalgos.rows.moments import products_of_columns
from dpalgos.rows.products import row_products
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_AT_ONCE = 1 << 15  # rows of a block in memory: its temporary arrays stay small
_NUMBERS_AT_ONCE = 1 << 16  # of an array (R, rows of a block) in a batch: a processor's cache holds it
_FEWEST_ROWS = 256
_MANY_ROWS, _FEW_OF_ROWS, _MOST_COPIED = 4_000, 0.6, 1 << 25  # each replicate has a copy of its rows

Query = Callable[["Block"], Any]
Array = TypeVar("Array", FloatArray, IntArray)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows X (n, d), or (R, n, d) of each replicate.

    ``derived`` is what :meth:`Rows.map` computed of them. ``weight`` is (n,), (R, n) in a batch with masks,
    or None if each row counts once. ``response`` is None if there are none. ``rows`` are the places of the
    rows among all, and ``units`` has the unit of privacy of each row, as an index or a slice of all units.
    ``is_clipped`` (n,) says which rows have a cell that was moved to a public bound before, if any has.
    """

    X: FloatArray
    response: FloatArray | None
    weight: FloatArray | None = None
    is_batch: bool = False
    rows: slice | IntArray | None = None
    units: slice | IntArray | None = None
    is_of_people: bool = False
    offset: FloatArray | float = 0.0
    is_clipped: BoolArray | None = None
    derived: Any = None

    @property
    def y(self) -> FloatArray:
        """The responses (n,); refused if there are none."""
        if self.response is None:
            raise InputError("y is required by this estimator, got None; pass the responses as an (n,) array")
        return self.response

    def predictors(self, coef: FloatArray, rows: FloatArray | None = None) -> FloatArray:
        """Return x'β of each of the rows (n, d), by default X, for coefficients (…, d), (…, n).

        Where people are protected, a row's number depends on no other row, bit by bit.
        """
        rows = self.X if rows is None else rows
        if rows.ndim == 3:
            is_single = coef.ndim == 2
            return (rows @ coef[..., None])[..., 0] if is_single else coef @ np.swapaxes(rows, -1, -2)
        if not self.is_of_people:
            return np.asarray(coef @ rows.T)
        columns = row_products(rows, coef.reshape(-1, coef.shape[-1]).T)
        return np.asarray(columns.T.reshape(*coef.shape[:-1], len(rows)))

    def total(self, values: FloatArray) -> FloatArray:
        """Return Σ w_i v_i for values (n, p), (…, p), or for one number per row (n,), ()."""
        total = values.sum(axis=self.X.ndim - 2) if self.weight is None else self.weight @ values
        return total if self.X.ndim == 3 else self._leading(total, values.ndim - 1)

    def products(self, factors: FloatArray, rows: FloatArray | None = None) -> FloatArray:
        """Return Σ w_i f_i x_i for factors (…, n) and rows (n, p), by default X, (…, p)."""
        weight = self.weight
        if weight is not None and weight.ndim == 2 and factors.ndim == 3:
            weight = weight[:, None]  # of replicates, for several factors of a row
        weighted = factors if weight is None else factors * weight
        rows = self.X if rows is None else rows
        if rows.ndim == 3 and weighted.ndim == 2:
            return (weighted[:, None] @ rows)[:, 0]
        return self._leading(weighted @ rows, 1)

    def moments(self, values: FloatArray) -> FloatArray:
        """Return Σ w_i z_i z_i' for values z (n, p), (…, p, p)."""
        weight = self.weight
        if weight is not None and weight.ndim == 1:
            values, weight = values * np.sqrt(weight)[:, None], None
        if values.ndim == 3:
            return np.swapaxes(values, -1, -2) @ values
        columns = np.ascontiguousarray(values.T)
        return self._leading(products_of_columns(columns, None if weight is None else weight.T), 2)

    def count(self, is_chosen: BoolArray) -> FloatArray:
        """Return Σ w_i over the chosen rows (…, n), (…,): how many, if rows have no weights."""
        counted = is_chosen.sum(axis=-1) if self.weight is None else (is_chosen * self.weight).sum(axis=-1)
        return self._leading(np.asarray(counted, dtype=float), 0)

    def histogram(self, cells: IntArray, n_cells: int, values: FloatArray | None = None) -> FloatArray:
        """Return Σ w_i v_i over the rows of each cell, (…, n_cells).

        ``cells`` (n,) or (R, n) has the cell of each row. ``values``, of such a shape, are v; by default 1.
        """
        one = np.ones(cells.shape[-1]) if values is None else values
        weights = one if self.weight is None else self.weight * one
        if cells.ndim == 1 and weights.ndim == 1:
            return self._leading(np.asarray(np.bincount(cells, weights, n_cells), dtype=float), 1)
        pairs = zip(*np.broadcast_arrays(np.atleast_2d(cells), np.atleast_2d(weights)), strict=True)
        return np.stack([np.bincount(own, w, n_cells) for own, w in pairs])

    def _leading(self, value: FloatArray, n_axes: int) -> FloatArray:
        return np.asarray(value[None] if self.is_batch and np.ndim(value) == n_axes else value)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a fit, of one replicate or of a batch.

    Attributes
    ----------
    n : float
        The public number of rows, of people if they are protected, or a released total of weights.
    d : int
        The number of columns.
    """

    sample: Sample
    n: float
    d: int
    is_batch: bool = False
    mapped: tuple[Block, ...] | None = None
    functions: tuple[Query, ...] = ()

    @classmethod
    def of_sample(cls, sample: Sample, *, is_batch: bool = False) -> "Rows":
        """Return the rows of a sample, whose replicates use one number of rows."""
        return cls(sample, float(sample.n_rows[0]), sample.n_features, is_batch)

    @property
    def blocks(self) -> tuple[Block, ...] | None:
        """The blocks of rows in memory, made once for all estimators; None if rows are streamed."""
        if self.mapped is not None or self.sample.rows.streamed:
            return self.mapped
        compute = partial(_blocks_in_memory, self.sample, self.is_batch)
        return self.sample.computed(("blocks", self.is_batch), compute)

    @property
    def _own_blocks(self) -> tuple[Block, ...]:
        """The rows of each replicate, for sums that are made many times; none if most rows are used."""
        sample, mask = self.sample, self.sample.row_mask
        if mask is None or sample.rows.streamed or sample.moved is not None or len(mask) <= _MANY_ROWS:
            return ()
        if self.n >= _FEW_OF_ROWS * len(mask) or self.n * mask.shape[1] * self.d >= _MOST_COPIED:
            return ()
        return sample.computed(("blocks of replicates",), partial(_blocks_of_replicates, sample))

    def with_total(self, total: float) -> "Rows":
        """Return the same rows with a released sum of weights in place of the number of units."""
        return replace(self, n=total)

    def whole(self) -> Block:
        """Return all rows as one block, or refuse if they are streamed."""
        self.sample.rows.array()
        return next(iter(_blocks(self.sample, self.is_batch)))

    def map(self, function: Query) -> "Rows":
        """Return rows whose blocks have a function of each as ``derived``.

        It is computed once if rows are in memory, otherwise in each pass.
        """
        blocks = self.mapped or (self.is_batch and self._own_blocks) or self.blocks
        if blocks is None:
            return replace(self, functions=(*self.functions, function))
        return replace(self, mapped=tuple(replace(each, derived=function(each)) for each in blocks))

    def each(self) -> Iterator[Block]:
        """Yield the blocks of one pass, in order."""
        return iter(self.blocks) if self.blocks else _blocks(self.sample, self.is_batch, self.functions)

    def sum(self, part: Query) -> FloatArray:
        """Return the sum over blocks of a function of each."""
        blocks = self.blocks
        if blocks is not None:
            return _sum_over(blocks, part)
        return np.asarray(self.sample.total(partial(_partial_sum, part, self.functions, self.is_batch)))

    def mean(self, part: Query) -> FloatArray:
        """Return the sum over ``n``."""
        return np.asarray(self.sum(part) / self.n)

    def zeros(self, *shape: int) -> FloatArray:
        """Return zeros of a shape, with the leading axis of a batch."""
        return np.zeros((1, *shape) if self.is_batch else shape)

    def by_column(self, values: Array) -> Array:
        """Return values with the axis of replicates last, (…, R), as :mod:`dpalgos.models` takes them."""
        return np.moveaxis(values, 0, -1) if self.is_batch else values[..., None]

    def by_replicate(self, values: Array) -> Array:
        """Return values (…, R) with the leading axis of a batch, (R, …), or of one replicate, (…)."""
        return np.moveaxis(values, -1, 0) if self.is_batch else np.asarray(values[..., 0])

    def computed(self, key: tuple[Hashable, ...], compute: Callable[[], FloatArray]) -> FloatArray:
        """Return ``compute()``, once for all estimators on these data; the key names all it depends on."""
        return self.sample.computed((*key, self.is_batch), compute)


def clipped_moments(
    rows: Rows, row_bound: float, response_bound: float, response_scale: float = 1.0
) -> FloatArray:
    """Return Σ z z' for z = (x, ``response_scale`` y), (…, d + 1, d + 1), of clipped rows and responses.

    Rows are clipped to the ℓ2 norm ``row_bound``, and responses truncated to ± ``response_bound``. The sum is
    computed once, however many estimators ask for it.
    """

    def part(block: Block) -> FloatArray:
        y = response_scale * truncate(block.y, response_bound)
        return block.moments(np.column_stack([clip_rows_l2(block.X, row_bound), y]))

    def compute() -> FloatArray:
        moments = rows.sum(part)
        moments.flags.writeable = False
        return moments

    return rows.computed(("clipped moments", row_bound, response_bound, response_scale), compute)


def clipped_mean(rows: Rows, clip: Callable[[FloatArray, float], FloatArray], bound: float) -> FloatArray:
    """Return the mean of ``clip(X, bound)``, (…, d), computed once, however many estimators ask for it."""

    def part(block: Block) -> FloatArray:
        return block.total(clip(block.X, bound))

    def compute() -> FloatArray:
        means = rows.mean(part)
        means.flags.writeable = False
        return means

    return rows.computed(("clipped mean", clip, bound), compute)


def _blocks_in_memory(sample: Sample, is_batch: bool) -> tuple[Block, ...]:
    """Return blocks of few rows, without rows that no replicate uses; people with all their rows in one."""
    at_once = max(_FEWEST_ROWS, _NUMBERS_AT_ONCE // sample.n_replicates) if is_batch else _ROWS_AT_ONCE
    at_once = len(sample.rows) if sample.has_shared_units else at_once
    return tuple(_block(sample, group, is_batch) for group in sample.held_blocks(at_once))


def _blocks_of_replicates(sample: Sample) -> tuple[Block, ...]:
    """Return blocks of rows (R, n, d): all replicates of a batch use as many rows."""
    used = np.stack([np.flatnonzero(own) for own in sample.mask_by_replicate])
    n_at_once = max(_FEWEST_ROWS, _NUMBERS_AT_ONCE // len(used))
    offset, y = sample.offset_of(slice(None)), sample.y
    return tuple(
        Block(
            X=sample.X[rows],
            response=None if y is None else y[rows],
            is_batch=True,
            offset=offset if isinstance(offset, float) else offset[rows, 0],
        )
        for start in range(0, used.shape[1], n_at_once)
        for rows in [used[:, start : start + n_at_once]]
    )


def _blocks(sample: Sample, is_batch: bool, functions: tuple[Query, ...] = ()) -> Iterator[Block]:
    for group in sample.row_blocks():
        block = _block(sample, group, is_batch)
        for function in functions:
            block = replace(block, derived=function(block))
        yield block


def _block(sample: Sample, group: Group, is_batch: bool) -> Block:
    weight = group.unit_weights
    if weight is None and sample.row_mask is not None:
        weight = group.weights.T if is_batch else group.weights[:, 0]
    return Block(
        X=group.X,
        response=group.y if sample.responds else None,
        weight=weight,
        is_batch=is_batch,
        rows=group.rows,
        units=group.units,
        is_of_people=sample.has_shared_units,
        offset=group.offset if isinstance(group.offset, float) else group.offset[:, 0],
        is_clipped=sample.clipped_rows(group),
    )


def _sum_over(blocks: Iterable[Block], part: Query) -> FloatArray:
    return np.asarray(sum(map(part, blocks)), dtype=float)


def _partial_sum(part: Query, functions: tuple[Query, ...], is_batch: bool, sample: Sample) -> FloatArray:
    return _sum_over(_blocks(sample, is_batch, functions), part)
