"""Rows of data with replicates as a trailing axis, validated once.

Replicates share X and y and differ in which rows they use. Two views serve the estimators: groups of a few
replicates whose (rows × replicates) arrays stay in the processor's cache; and
:class:`dpalgos.rows.wide.Design` for wide data.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.errors import InputError
from dpalgos.rows.blocks import (
    HeldRows,
    Rows,
    StreamedRows,
    checked_mask,
    finite_vector,
)
from dpalgos.rows.group import Group, PrivacyUnits
from dpalgos.rows.partitions import PartitionedRows, total_of
from dpalgos.rows.users import UserRows, user_codes
from dpalgos.typing import BoolArray, FloatArray, IntArray

GROUP_ELEMENTS = 160_000  # of one (rows × replicates) array, so that the cache holds two more of their size
_MANY_ROWS, _FEW_OF_ROWS, _MOST_COPIED = 4_000, 0.6, 2**25  # a replicate is a group of its own
_OF_ALL_ROWS = "offset_bounds", "leaves_out_unused_rows", "public_rows", "public_groups", "units", "relation"
_BY_ROW = ("moved", "_held_y", "user_codes", "row_weights")
Bounds = tuple[float, float] | None


T = TypeVar("T")


class Sample:
    """Validated data for ``n_replicates`` replicates.

    Parameters
    ----------
    X : (n, d) array_like, callable or Rows
        Finite numbers; float32 stays float32. An array is copied, except if it is read-only, also to views
        made before: entries that change after the check would escape truncation. A callable is for data that
        do not fit into memory (:class:`dpalgos.rows.blocks.StreamedRows`). It returns an iterable of blocks
        of rows, or of pairs of blocks and their responses, the same in every pass. For many files or
        machines, use :class:`dpalgos.rows.partitions.PartitionedRows`.
    y : (n,) array_like or None
        Finite numbers; None for tasks without a response, and where blocks bring theirs.
    row_mask : (n, R) or (n,) bool array, optional
        The rows that each replicate uses; all rows if omitted.
    n_replicates : int
        R.
    user_ids : (n,) array_like of whole numbers or text, optional
        The user of every row, for estimators that protect whole users.
    row_weights : (n,) array_like, optional
        The private weight of every row, for estimators that take weights.
    relation : Relation, optional
        The neighboring relation, if it is not the estimator's for these arguments. Examples are rows of data
        of which each is a person, and rows that were made of one row of data.
    public_rows : (m, d) array, optional
        Rows of people who have published them, which come with the data; an estimator's keyword comes first.
    public_groups : (m,) array of int, optional
        The groups that these people belong to, 0 … G − 1.
    moved : (n, d) or (n, d + 1) array, optional
        The cells of X and y that were clipped to a public bound before. Values are −1 at the lower bound, 1
        at the upper bound, else 0. Intervals count them as clipped. For streamed rows, it may be an object
        that returns some rows of this array by their indices.

    Raises
    ------
    InputError
        Names the argument and what is wrong with it, never a value of the data. Whether data are refused
        depends on them, and is outside every guarantee.
    """

    def __init__(
        self,
        X: object,
        y: object = None,
        *,
        row_mask: object = None,
        n_replicates: int = 1,
        user_ids: object = None,
        row_weights: object = None,
        public_rows: FloatArray | None = None,
        public_groups: IntArray | None = None,
        moved: Any = None,
        relation: Relation | None = None,
    ) -> None:
        self.relation = relation
        self.offset_bounds: Bounds = None
        self.units: PrivacyUnits | None = None
        self.leaves_out_unused_rows = False
        self.public_rows, self.public_groups = public_rows, public_groups
        self.moved = moved
        self.rows = X if isinstance(X, Rows) else StreamedRows(X) if callable(X) else HeldRows(X)
        n = len(self.rows)
        self._held_y = None if y is None else finite_vector("y", y)
        if self._held_y is not None and len(self._held_y) != n:
            raise InputError(
                f"y must have one entry per row of X, got {len(self._held_y)} entries for {n} rows"
            )
        if self._held_y is not None and _brings_responses(self.rows):
            raise InputError("y must be None where the stream X brings the responses, got an array as well")
        self.n_replicates = n_replicates
        self.row_mask = None if row_mask is None else checked_mask(row_mask, n, n_replicates)
        self.user_codes = None if user_ids is None else user_codes(user_ids, n)
        self.row_weights = None if row_weights is None else finite_vector("weights", row_weights)
        if self.row_weights is not None and len(self.row_weights) != n:
            raise InputError(
                f"weights must have one entry per row of X, got {len(self.row_weights)} entries for {n} rows"
            )

    @cached_property
    def X(self) -> FloatArray:
        """The rows as an array in double precision, without an offset; refused if they are streamed."""
        return self.rows.array().astype(np.float64, copy=False)[:, self._covariates]

    @property
    def responds(self) -> bool:
        """Whether there are responses."""
        return self._held_y is not None or _brings_responses(self.rows)

    @cached_property
    def y(self) -> FloatArray | None:
        """The responses (n,), if there are any; streamed ones are read into memory."""
        if self._held_y is not None or not _brings_responses(self.rows):
            return self._held_y
        y = np.empty(len(self.rows))
        for group in self.row_blocks():
            y[group.rows] = group.y
        y.flags.writeable = False
        return y

    @classmethod
    def of_vectors(cls, vectors: FloatArray, n_replicates: int = 1) -> "Sample":
        """Return vectors (n, d) that were computed from validated rows, such as means over users, as rows."""
        return cls(HeldRows.trusted(vectors), n_replicates=n_replicates)

    def derived(
        self,
        *,
        rows: BoolArray | IntArray | None = None,
        row_mask: BoolArray | None = None,
        n_replicates: int | None = None,
    ) -> "Sample":
        """Return a sample of the same data, or of some ``rows`` of it, without validating again.

        By default, it has no ``row_mask``, and as many replicates as this sample.
        """
        copy = object.__new__(Sample)
        for name in _OF_ALL_ROWS:
            setattr(copy, name, getattr(self, name))
        for name in _BY_ROW:
            values = getattr(self, name)
            setattr(copy, name, values if values is None or rows is None else values[rows])
        copy.rows = self.rows if rows is None else self.rows.taken(rows)
        copy.row_mask = row_mask
        copy.n_replicates = self.n_replicates if n_replicates is None else n_replicates
        return copy

    def for_replicate(self, r: int) -> "Sample":
        """Return the rows of one replicate as a sample of their own; a mask is applied."""
        if self.n_replicates == 1 and self.row_mask is None:
            return self
        if self.row_mask is None:
            one = self.derived(n_replicates=1)
        elif self.rows.streamed:
            one = self.derived(row_mask=self.row_mask[:, [r]], n_replicates=1)
            one.leaves_out_unused_rows = True
        else:
            one = self.derived(rows=self.row_mask[:, r], n_replicates=1)
        one.n_rows = self.n_rows[[r]]
        return one

    def with_units(self, units: PrivacyUnits) -> "Sample":
        """Return the same rows of one replicate in units of privacy."""
        return self._with(units=units, n_rows=np.array([units.n_units]))

    def with_offset(self, bounds: tuple[float, float]) -> "Sample":
        """Return the same rows with the first column as an offset, clipped to public bounds."""
        return self._with(offset_bounds=bounds)

    def _with(self, **changes: Any) -> "Sample":
        copy = self.derived(row_mask=self.row_mask)
        kept = {"n_rows": self.n_rows} | ({} if self.user_codes is None else {"n_users": self.n_users})
        vars(copy).update(kept | changes)
        return copy

    @property
    def has_shared_units(self) -> bool:
        """Whether units of privacy may have several rows."""
        return self.units is not None and self.units.codes is not None

    @property
    def n_features(self) -> int:
        """Number of columns d, without an offset."""
        return self.rows.shape[1] - (self.offset_bounds is not None)

    def offset_of(self, rows: slice | IntArray) -> FloatArray | float:
        """Return the offset of some rows, (m, 1), 0 where there is none; refused if rows are streamed."""
        return 0.0 if self.offset_bounds is None else self._offset(self.rows.array()[rows])

    @property
    def _covariates(self) -> slice:
        """Which columns are covariates: not an offset before them, nor a response after them."""
        return slice(int(self.offset_bounds is not None), self.rows.shape[1])

    def _offset(self, rows: FloatArray) -> FloatArray | float:
        return 0.0 if self.offset_bounds is None else np.clip(rows[:, :1], *self.offset_bounds)

    @cached_property
    def n_rows(self) -> FloatArray:
        """Number of rows that each replicate uses, (R,)."""
        if self.row_mask is None:
            return np.full(self.n_replicates, float(len(self.rows)))
        return np.asarray(np.count_nonzero(self.mask_by_replicate, axis=1), dtype=float)

    @cached_property
    def mask_by_replicate(self) -> BoolArray:
        """The row mask, replicate by replicate, (R, n); all True without a mask."""
        if self.row_mask is None:
            return np.ones((self.n_replicates, len(self.rows)), dtype=bool)
        return np.ascontiguousarray(self.row_mask.T)

    @property
    def has_one_size(self) -> bool:
        """Whether all replicates have as many rows, or as many users where there are user ids."""
        sizes = self.n_rows if self.user_codes is None else self.n_users
        return bool((sizes == sizes[0]).all())

    @property
    def users(self) -> UserRows:
        """The rows of a sample of one replicate, user by user."""
        assert self.row_mask is None
        return UserRows(self.X, self.y, self._codes)

    @cached_property
    def n_users(self) -> IntArray:
        """Number of users of each replicate, (R,)."""
        masks = [slice(None)] if self.row_mask is None else self.row_mask.T
        counts = [np.count_nonzero(np.bincount(self._codes[rows])) for rows in masks]
        return np.broadcast_to(counts, (self.n_replicates,))

    @property
    def _codes(self) -> IntArray:
        if self.user_codes is None:
            raise InputError(
                "user_ids is required by this estimator, got None; pass whose row it is as an (n,) array"
            )
        return self.user_codes

    def clipped_cells(self, group: Group) -> BoolArray | None:
        """Return whether each cell of a group's X was clipped to a bound, (n_group, d); None if none was."""
        if self.moved is None:
            return None
        return np.asarray(self.moved[group.rows][:, self._covariates] != 0)

    def clipped_rows(self, group: Group) -> BoolArray | None:
        """Return whether each row of a group has a clipped cell, (n_group,); None if none has."""
        return None if self.moved is None else np.asarray(self.moved[group.rows].any(axis=1))

    def means_of_users(self) -> "Sample":
        """Return the means of users' rows as rows, for a sample of one replicate.

        A mean counts as clipped where a row of it was.
        """
        users = self.users
        sample = Sample.of_vectors(users.means(users.X))
        if self.moved is not None:
            sides = self.moved[np.argsort(self._codes, kind="stable")]
            high, low = (each.reduceat(sides, users.starts) for each in (np.maximum, np.minimum))
            sample.moved = np.where(high > 0, high, low)
        return sample

    def check_response(self) -> None:
        """Refuse if there is no y."""
        if not self.responds:
            raise InputError("y is required by this estimator, got None; pass the responses as an (n,) array")

    def responses(self) -> Iterator[FloatArray]:
        """Yield y, or refuse if there is none: at once, or block by block where rows are streamed."""
        self.check_response()
        yield from (group.y for group in self.row_blocks())

    def response(self) -> FloatArray:
        """Return y, or refuse if there is none."""
        self.check_response()
        assert self.y is not None
        return self.y

    def computed(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """Return the result of ``compute`` for a key; compute it once."""
        if key not in self._computed:
            self._computed[key] = compute()
        found: T = self._computed[key]
        return found

    @cached_property
    def _computed(self) -> dict[tuple[Hashable, ...], Any]:
        return {}

    def groups(self) -> Iterator[Group]:
        """Yield the replicates in cache-sized groups, each with only the rows that it uses; not streamed."""
        n, y = len(self.X), np.zeros(len(self.X)) if self.y is None else self.y
        copied = self.n_rows.sum() * self.n_features
        alone = n > _MANY_ROWS and self.n_rows.mean() < _FEW_OF_ROWS * n and copied < _MOST_COPIED
        step = 1 if alone else max(1, min(self.n_replicates, max(8, GROUP_ELEMENTS // n)))
        for start in range(0, self.n_replicates, step):
            replicates = slice(start, min(start + step, self.n_replicates))
            if self.row_mask is None:
                yield self._group(
                    replicates, slice(None), self.X, y, np.ones((n, 1)), self.offset_of(slice(None))
                )
                continue
            used = np.flatnonzero(self.row_mask[:, replicates].any(axis=1))
            weights = self.row_mask[used, replicates].astype(float, order="F")
            yield self._group(replicates, used, self.X[used], y[used], weights, self.offset_of(used))

    def held_blocks(self, n_at_once: int) -> Iterator[Group]:
        """Yield rows in memory for all replicates, so many at once, without rows that no replicate uses."""
        X, y, mask = self.X, self.y, self.row_mask
        chosen, weights = None, np.ones((len(X), 1))
        if mask is not None:  # one array by replicate, since sums are of replicates; blocks are parts of it
            own = self.mask_by_replicate
            chosen = np.flatnonzero(own.any(axis=0))
            if len(chosen) == len(X):
                chosen = None
            else:
                X, own = X.take(chosen, axis=0), np.ascontiguousarray(mask.take(chosen, axis=0).T)
                y = None if y is None else y[chosen]
            weights = own.astype(float).T
        for start in range(0, len(X), n_at_once):
            some = slice(start, min(start + n_at_once, len(X)))
            rows: slice | IntArray = some if chosen is None else chosen[some]
            responses = np.zeros(some.stop - start) if y is None else y[some]
            replicates = slice(0, self.n_replicates)
            yield self._group(replicates, rows, X[some], responses, weights[some], self.offset_of(rows))

    def partials(self, function: Callable[["Sample"], T]) -> Iterable[T]:
        """Apply a function to each partition of the rows, as a sample, in order.

        The function may run in another process. It must read the rows of its argument only, and draw no
        noise. Rows with separate arrays of responses, masks or clipped cells form one partition, because
        these arrays would be sent every time.
        """
        if (rows := self._partitions) is None:
            return [function(self)]
        return rows.mapped(partial(_of_partition, function, self.n_replicates, self.offset_bounds))

    def total(self, function: Callable[["Sample"], FloatArray]) -> FloatArray:
        """Return the sum of :meth:`partials`."""
        return function(self) if self._partitions is None else total_of(self.partials(function))

    @property
    def _partitions(self) -> PartitionedRows | None:
        """The rows, if they are partitioned and nothing lies next to them."""
        alone = all(each is None for each in (self._held_y, self.row_mask, self.moved, self.units))
        return self.rows if alone and isinstance(self.rows, PartitionedRows) else None

    def row_blocks(self) -> Iterator[Group]:
        """Yield all rows for all replicates: at once, or block by block where rows are streamed."""
        everybody = slice(0, self.n_replicates)
        if not isinstance(self.rows, StreamedRows):
            weights = np.ones((len(self.X), 1)) if self.float_mask is None else self.float_mask
            y = np.zeros(len(self.X)) if self.y is None else self.y
            yield self._group(everybody, slice(None), self.X, y, weights, self.offset_of(slice(None)))
            return
        rows: slice | IntArray
        for rows, block, streamed_y in self.rows.pieces():
            X = block.astype(np.float64, copy=False)
            responses = streamed_y if self._held_y is None else self._held_y[rows]
            y = np.zeros(len(X)) if responses is None else responses.astype(np.float64, copy=False)
            weights = np.ones((len(X), 1)) if self.row_mask is None else self.row_mask[rows].astype(float)
            if self.leaves_out_unused_rows and self.row_mask is not None:
                used = self.row_mask[rows, 0]
                X, y, weights, rows = X[used], y[used], weights[used], np.arange(rows.start, rows.stop)[used]
            yield self._group(everybody, rows, X[:, self._covariates], y, weights, self._offset(X))

    def _group(
        self,
        replicates: slice,
        rows: slice | IntArray,
        X: FloatArray,
        y: FloatArray,
        weights: FloatArray,
        offset: FloatArray | float,
    ) -> Group:
        units, own = rows, None
        if self.units is not None:
            units = rows if self.units.codes is None else self.units.codes[rows]
            own = self.units.weights[rows]
        return Group(replicates, rows, X, y, weights, offset, units, own)

    @cached_property
    def float_mask(self) -> FloatArray | None:
        """The row mask as weights (n, R) of 0 and 1, if there is one."""
        return None if self.row_mask is None else self.row_mask.astype(float)


def _of_partition(
    function: Callable[[Sample], T], n_replicates: int, offset: Bounds, rows: StreamedRows
) -> T:
    part = Sample(rows, n_replicates=n_replicates)
    return function(part if offset is None else part.with_offset(offset))


def _brings_responses(rows: Rows) -> bool:
    return isinstance(rows, StreamedRows) and rows.responds


def marked_rows(is_clipped: BoolArray, n_columns: int) -> Any:
    """Return marks of all cells of rows (n,) that have a clipped number, without a copy for each column."""
    return np.broadcast_to(is_clipped.astype(np.int8)[:, None], (len(is_clipped), n_columns))
