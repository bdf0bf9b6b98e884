"""Rows in blocks, whose sums alone hold the weights of rows.

A query is a function of a :class:`Block`. It says what each row adds, within a public bound. ``total``,
``sum``, ``products`` and ``moments`` of the block add it up, with the weight of each row. Masks of
replicates and weights of people are weights of rows, so queries contain no weight.

**Units of privacy.** If the weights of a person's rows sum to at most 1, the person adds a point of the
convex hull of what one row may add. So the bound for replacing a row is that for replacing a person
(:mod:`dpalgos.rows.units`). The sums of each person's rows are in :mod:`dpalgos.core.persons`.

**Replicates.** Vectors lie along the last axis. In a batch of R replicates, all arrays that were summed or
released have a leading axis: (p,) becomes (R, p), or (1, p) if it is the same for all replicates. An
estimator that indexes with ``...`` serves both: ``moments[..., :d, d]``. If masks leave out most rows, the
blocks of :meth:`Rows.map` have the rows of each replicate, (R, n, d), and no weights.

**Streams.** Where rows are streamed, each pass reads its blocks anew, and partial sums of partitions may be
computed in other processes. A query must not read ``rows`` or ``spend``: they would be sent along.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.rows.follow_up import FollowUpOfRows
from dpalgos.rows.products import clip_rows_l2, row_products, truncate
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows, total_of
from dpalgos.rows.symmetric import products_of_columns
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_AT_ONCE = 1 << 15  # rows of a block in memory: its temporary arrays stay small
_FOLLOWED_AT_ONCE = 1 << 13  # the same of rows that are followed over time, with more of these arrays
_NUMBERS_AT_ONCE = 1 << 16  # of an array (R, rows of a block) in a batch: a processor's cache holds it
_FEWEST_ROWS = 256
_MANY_ROWS, _FEW_OF_ROWS, _MOST_COPIED = 4_000, 0.6, 1 << 25  # each replicate has a copy of its rows

Query = Callable[["Block"], Any]
# Factors (n,) and vectors (n, k) of the rows of a block.
Vectors = Callable[["Block"], tuple[FloatArray, FloatArray]]
Array = TypeVar("Array", FloatArray, IntArray)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows X (n, d), or (R, n, d) of each replicate.

    ``derived`` is what :meth:`Rows.map` computed of them. ``weight`` is (n,), (R, n) in a batch with masks,
    or None if each row counts once. ``response`` is None if there are none. ``rows`` are the places of the
    rows among all, and ``units`` has the unit of privacy of each row, as an index or a slice of all units.
    ``moved``, as in :class:`dpalgos.rows.sample.Sample`, says which cells of a row were clipped to a public
    bound before; it is None if none was.
    """

    X: FloatArray
    response: FloatArray | None
    weight: FloatArray | None = None
    is_batch: bool = False
    rows: slice | IntArray | None = None
    units: slice | IntArray | None = None
    is_of_people: bool = False
    offset: FloatArray | float = 0.0
    moved: IntArray | None = None
    whole: FloatArray | None = None
    follow_up: FollowUpOfRows | None = None
    derived: Any = None

    @property
    def y(self) -> FloatArray:
        """The responses (n,); refused if there are none."""
        if self.response is None:
            raise InputError("y is required by this estimator, got None; pass the responses as an (n,) array")
        return self.response

    @property
    def row_weights(self) -> FloatArray:
        """The weights of rows, (n,), without masks: 1 if they have none."""
        return np.ones(len(self.X)) if self.weight is None else self.weight

    @property
    def score_weights(self) -> FloatArray:
        """The weights of rows in sums that are clipped as a whole, (n,): those of the whole of a share."""
        return self.row_weights if self.whole is None else self.whole

    @property
    def is_clipped(self) -> BoolArray | None:
        """Which rows have a clipped cell, (n,); None if none has."""
        return None if self.moved is None else np.asarray(self.moved.any(axis=1))

    @property
    def clipped_cells(self) -> BoolArray | None:
        """Which cells of X were clipped, (n, d), not counting an offset or a response; None if none was."""
        if self.moved is None:
            return None
        first = int(not isinstance(self.offset, float))
        return np.asarray(self.moved[:, first : first + self.X.shape[-1]] != 0)

    def of(self, replicates: BoolArray) -> "Block":
        """Return the same rows with the weights of some replicates, (R,)."""
        has_masks = self.weight is not None and self.weight.ndim == 2
        return replace(self, weight=self.weight[replicates]) if has_masks else self  # type: ignore[index]

    def replicates(self, n_replicates: int) -> Iterator["Block"]:
        """Yield for each replicate the rows that it uses, as a block without weights of 0 and 1."""
        for r in range(n_replicates):
            if self.weight is None or self.weight.ndim == 1:
                yield replace(self, is_batch=False)
                continue
            used = np.flatnonzero(self.weight[r])
            yield replace(
                self,
                X=self.X[used],
                response=None if self.response is None else self.response[used],
                weight=None,
                is_batch=False,
                rows=None,
                units=None,
                offset=self.offset if isinstance(self.offset, float) else self.offset[used],
                moved=None if self.moved is None else self.moved[used],
            )

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

    def moments(self, values: FloatArray, factors: FloatArray | None = None) -> FloatArray:
        """Return Σ w_i f_i z_i z_i' for values z (n, p) and factors f (…, n), by default 1, (…, p, p)."""
        weight = self.weight
        if factors is not None:
            weight = factors if weight is None else factors * weight
        elif weight is not None and weight.ndim == 1:
            values, weight = values * np.sqrt(weight)[:, None], None
        if values.ndim == 3:
            left = np.swapaxes(values, -1, -2)
            return (left if weight is None else left * weight[:, None]) @ values
        columns = np.ascontiguousarray(values.T)
        if weight is not None and weight.ndim == 1:
            return self._leading((columns * weight) @ values, 2)
        return self._leading(products_of_columns(columns, None if weight is None else weight.T), 2)

    def sum(self, values: FloatArray | BoolArray) -> FloatArray:
        """Return Σ w_i v_i for one number per row of each replicate, (…, n), (…,).

        For booleans this is the weight of the rows that are True: how many, if rows have no weights.
        """
        total = values.sum(axis=-1) if self.weight is None else (values * self.weight).sum(axis=-1)
        return self._leading(np.asarray(total, dtype=float), 0)

    def histogram(self, cells: IntArray, n_cells: int, values: FloatArray | None = None) -> FloatArray:
        """Return Σ w_i v_i over the rows of each cell, (…, n_cells).

        ``cells`` (n,) or (R, n) has the cell of each row. ``values``, of such a shape, are v; by default 1.
        """
        values = np.ones(cells.shape[-1]) if values is None else values
        if cells.ndim == values.ndim == 1 and self.weight is not None and self.weight.ndim == 2:
            replicates, rows = self._used
            size = len(self.weight) * n_cells
            sums = np.bincount(replicates * n_cells + cells[rows], values[rows], size)
            return np.asarray(sums.reshape(-1, n_cells), dtype=float)
        weights = values if self.weight is None else self.weight * values
        if cells.ndim == 1 and weights.ndim == 1:
            return self._leading(np.asarray(np.bincount(cells, weights, n_cells), dtype=float), 1)
        pairs = zip(*np.broadcast_arrays(np.atleast_2d(cells), np.atleast_2d(weights)), strict=True)
        return np.stack([np.bincount(own, w, n_cells) for own, w in pairs])

    @cached_property
    def _used(self) -> tuple[IntArray, IntArray]:
        """The pairs of a replicate and a row that it uses, by a mask."""
        assert self.weight is not None
        replicates, rows = np.nonzero(self.weight)
        return replicates, rows

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
        sample, is_batch = self.sample, self.is_batch
        return sample.computed(("blocks", is_batch), lambda: tuple(_in_memory(sample, is_batch)))

    @property
    def _own_blocks(self) -> tuple[Block, ...]:
        """The rows of each replicate, for sums that are made many times; none if most rows are used."""
        sample, mask = self.sample, self.sample.row_mask
        if mask is None or sample.rows.streamed or sample.moved is not None or len(mask) <= _MANY_ROWS:
            return ()
        if self.n >= _FEW_OF_ROWS * len(mask) or self.n * mask.shape[1] * self.d >= _MOST_COPIED:
            return ()
        return sample.computed(("blocks of replicates",), lambda: tuple(_of_replicates(sample)))

    def with_total(self, total: float) -> "Rows":
        """Return the same rows with a released sum of weights in place of the number of units."""
        return replace(self, n=total)

    def whole(self) -> Block:
        """Return all rows as one block, or refuse if they are streamed."""
        (block,) = _in_memory(self.sample, self.is_batch, len(self.sample.rows))
        return block

    def map(self, function: Query) -> "Rows":
        """Return rows whose blocks have a function of each as ``derived``.

        It is computed once if rows are in memory, otherwise in each pass.
        """
        blocks = self.mapped or (self._own_blocks if self.is_batch else ()) or self.blocks
        if blocks is None:
            return replace(self, functions=(*self.functions, function))
        return replace(self, mapped=tuple(replace(each, derived=function(each)) for each in blocks))

    def each(self) -> Iterator[Block]:
        """Yield the blocks of one pass, in order."""
        return iter(self.blocks) if self.blocks else _streamed(self.sample, self.is_batch, self.functions)

    def partials(self, function: Callable[["Rows"], T]) -> Iterable[T]:
        """Apply a function to the rows of each partition, in order.

        The function may run in another process. It must read the rows of its argument only, and draw no
        noise. Rows with separate arrays of responses, masks or clipped cells form one partition, because
        these arrays would be sent every time.
        """
        partitions = self.sample.partitions
        if partitions is None:
            return [function(self)]
        options = self.sample.n_replicates, self.sample.offset_bounds, self.is_batch, self.functions
        return partitions.mapped(partial(_of_partition, function, *options))

    def sum(self, part: Query) -> FloatArray:
        """Return the sum over blocks of a function of each."""
        if self.sample.partitions is not None and self.mapped is None:
            return np.asarray(total_of(self.partials(partial(Rows.sum, part=part))))
        return np.asarray(sum(map(part, self.each())), dtype=float)

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


def second_moments(rows: Rows, row_bound: float | None = None) -> FloatArray:
    """Return Σ x x', (…, d, d), of rows that are clipped to an ℓ2 norm if one is given; computed once."""

    def part(block: Block) -> FloatArray:
        return block.moments(block.X if row_bound is None else clip_rows_l2(block.X, row_bound))

    return rows.computed(("second moments", row_bound), lambda: rows.sum(part))


def _in_memory(sample: Sample, is_batch: bool, n_at_once: int | None = None) -> Iterator[Block]:
    """Yield rows in memory in blocks of few rows, without rows that no replicate uses.

    Blocks have an even number of rows, except the last one. People have all their rows in one block, and
    their blocks may be longer.
    """
    people = sample.units.starts if sample.units is not None else None
    if n_at_once is None:
        at_once = _ROWS_AT_ONCE if sample.follow_up is None else _FOLLOWED_AT_ONCE
        at_once = max(_FEWEST_ROWS, _NUMBERS_AT_ONCE // sample.n_replicates) if is_batch else at_once
        is_one = sample.has_shared_units and people is None
        n_at_once = len(sample.rows) if is_one else at_once // 2 * 2
    array, y, weights, used = sample.array, sample.y, None, None
    if sample.row_mask is not None:
        mask = sample.mask_by_replicate
        used = np.flatnonzero(mask.any(axis=0))
        if len(used) == len(array):
            used = None
        else:
            array, mask = array.take(used, axis=0), mask.take(used, axis=1)
            y = None if y is None else y[used]
        weights = mask.astype(float)  # one array, of which blocks have parts: in a fifth of the time
    end = 0
    while end < len(array):
        some = slice(end, end := min(end + n_at_once, len(array)))
        if people is not None:
            some = slice(some.start, end := int(people[np.searchsorted(people, end)]))
        own_y, own = None if y is None else y[some], None if weights is None else weights[:, some]
        yield _block(sample, is_batch, some if used is None else used[some], array[some], own_y, own)


def _of_replicates(sample: Sample) -> Iterator[Block]:
    """Yield blocks of rows (R, n, d): all replicates of a batch use as many rows."""
    used = np.stack([np.flatnonzero(own) for own in sample.mask_by_replicate])
    n_at_once = max(_FEWEST_ROWS, _NUMBERS_AT_ONCE // len(used))
    for start in range(0, used.shape[1], n_at_once):
        rows = used[:, start : start + n_at_once]
        values = sample.array[rows]
        offset = sample.offset_of(values)
        yield Block(
            X=values if isinstance(offset, float) else values[..., 1:],
            response=None if sample.y is None else sample.y[rows],
            is_batch=True,
            offset=offset,
        )


def _streamed(sample: Sample, is_batch: bool, functions: tuple[Query, ...]) -> Iterator[Block]:
    """Yield the blocks of one pass over streamed rows."""
    assert isinstance(sample.rows, StreamedRows)
    rows: slice | IntArray
    for rows, piece, streamed_y in sample.rows.pieces():
        values = piece.astype(np.float64, copy=False)
        y = streamed_y if sample.held_y is None else sample.held_y[rows]
        mask = None if sample.row_mask is None else sample.row_mask[rows].T
        if mask is not None and not is_batch:
            used = np.flatnonzero(mask[0])
            values, mask, rows = values[used], mask[:, used], rows.start + used
            y = None if y is None else y[used]
        y = None if y is None else y.astype(float, copy=False)
        block = _block(sample, is_batch, rows, values, y, None if mask is None else mask.astype(float))
        for function in functions:
            block = replace(block, derived=function(block))
        yield block


def _block(
    sample: Sample,
    is_batch: bool,
    rows: slice | IntArray,
    values: FloatArray,
    y: FloatArray | None,
    weights: FloatArray | None,
) -> Block:
    """Return a block of rows with all stored values; ``weights`` (R, n) are those of masks."""
    weight, units, places = None, sample.units, rows
    if units is not None:
        weight, places = units.weights[rows], rows if units.codes is None else units.codes[rows]
    elif weights is not None:
        weight = weights if is_batch else weights[0]
    offset = sample.offset_of(values)
    return Block(
        X=values if isinstance(offset, float) else values[:, 1:],
        response=y,
        weight=weight,
        is_batch=is_batch,
        rows=rows,
        units=places,
        is_of_people=sample.has_shared_units,
        offset=offset,
        moved=None if sample.moved is None else sample.moved[rows],
        whole=None if units is None or units.whole is None else units.whole[rows],
        follow_up=None if sample.follow_up is None else sample.follow_up.taken(rows),
    )


def _of_partition(
    function: Callable[[Rows], T],
    n_replicates: int,
    offset_bounds: tuple[float, float] | None,
    is_batch: bool,
    functions: tuple[Query, ...],
    stored: StreamedRows,
) -> T:
    sample = Sample(stored, n_replicates=n_replicates)
    sample = sample if offset_bounds is None else sample.with_offset(offset_bounds)
    return function(replace(Rows.of_sample(sample, is_batch=is_batch), functions=functions))
