"""Data as a user gives them, validated once.

Replicates share X and y and differ in which rows they use. Estimators read blocks of rows
(:class:`dpalgos.core.rows.Rows`), or with many columns :class:`dpalgos.rows.wide.Design`.
"""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.errors import InputError
from dpalgos.rows.blocks import HeldRows, Stored, checked_mask, finite_vector
from dpalgos.rows.follow_up import FollowUpOfRows
from dpalgos.rows.products import sums_by_unit
from dpalgos.rows.streams import PartitionedRows, StreamedRows
from dpalgos.rows.units import PrivacyUnits, user_codes, weighted_units
from dpalgos.typing import BoolArray, FloatArray, IntArray

_OF_ALL_ROWS = "n_features", "responds", "offset_bounds", "public_rows", "public_groups", "relation"
_BY_ROW = ("moved", "held_y", "user_codes", "row_weights", "row_shares")
Bounds = tuple[float, float] | None


T = TypeVar("T")


class Sample:
    """Validated data for ``n_replicates`` replicates.

    Parameters
    ----------
    X : (n, d) array_like, callable or Stored
        Finite numbers; float32 stays float32. An array is copied, except if it is read-only, also to views
        made before: entries that change after the check would escape truncation. A callable is for data that
        do not fit into memory (:class:`dpalgos.rows.streams.StreamedRows`). It returns an iterable of blocks
        of rows, or of pairs of blocks and their responses, the same in every pass. For many files or
        machines, use :class:`dpalgos.rows.streams.PartitionedRows`.
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
    row_shares : (n,) array_like, optional
        The part that every row is of its unit of privacy, such as of a person's follow-up.
    follow_up : FollowUpOfRows, optional
        If rows are followed over time, their periods.
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
        row_shares: object = None,
        follow_up: FollowUpOfRows | None = None,
        public_rows: FloatArray | None = None,
        public_groups: IntArray | None = None,
        moved: Any = None,
        relation: Relation | None = None,
    ) -> None:
        self.relation = relation
        self.offset_bounds: Bounds = None
        self.units: PrivacyUnits | None = None
        self._computed: dict[tuple[Hashable, ...], Any] = {}
        self.public_rows, self.public_groups = public_rows, public_groups
        self.moved, self.follow_up = moved, follow_up
        self.rows = X if isinstance(X, Stored) else StreamedRows(X) if callable(X) else HeldRows(X)
        n = len(self.rows)
        self.n_features = self.rows.shape[1]  # without an offset
        brings_responses = isinstance(self.rows, StreamedRows) and self.rows.responds
        self.responds = y is not None or brings_responses
        self.held_y = None if y is None else finite_vector("y", y)
        if self.held_y is not None and len(self.held_y) != n:
            raise InputError(
                f"y must have one entry per row of X, got {len(self.held_y)} entries for {n} rows"
            )
        if self.held_y is not None and brings_responses:
            raise InputError("y must be None where the stream X brings the responses, got an array as well")
        self.n_replicates = n_replicates
        self.row_mask = None if row_mask is None else checked_mask(row_mask, n, n_replicates)
        self.user_codes = None if user_ids is None else user_codes(user_ids, n)
        self.row_weights = None if row_weights is None else finite_vector("weights", row_weights)
        self.row_shares = None if row_shares is None else finite_vector("shares", row_shares)
        if self.row_weights is not None and len(self.row_weights) != n:
            raise InputError(
                f"weights must have one entry per row of X, got {len(self.row_weights)} entries for {n} rows"
            )

    @cached_property
    def array(self) -> FloatArray:
        """The rows as an array in double precision, with an offset; refused if they are streamed."""
        return self.rows.array().astype(np.float64, copy=False)

    @property
    def X(self) -> FloatArray:
        """The rows as an array in double precision, without an offset; refused if they are streamed."""
        return self.array if self.offset_bounds is None else self.array[:, 1:]

    @cached_property
    def y(self) -> FloatArray | None:
        """The responses (n,), if there are any; streamed ones are read into memory."""
        if self.held_y is not None or not self.responds:
            return self.held_y
        assert isinstance(self.rows, StreamedRows)
        y = np.empty(len(self.rows))
        for rows, _, responses in self.rows.pieces():
            y[rows] = responses
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
        copy._computed = {}
        follow_up = self.follow_up
        copy.follow_up = follow_up if rows is None or follow_up is None else follow_up.taken(rows)
        copy.units = self.units if rows is None else None
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
        else:
            one = self.derived(rows=self.row_mask[:, r], n_replicates=1)
        one.n_rows = self.n_rows[[r]]
        return one

    def with_units(self, units: PrivacyUnits) -> "Sample":
        """Return the same rows in units of privacy."""
        return self._with(units=units, n_rows=np.full(self.n_replicates, units.n_units))

    def with_offset(self, bounds: tuple[float, float]) -> "Sample":
        """Return the same rows with the first column as an offset, clipped to public bounds."""
        return self._with(offset_bounds=bounds, n_features=self.n_features - 1)

    def with_follow_up(self, follow_up: FollowUpOfRows) -> "Sample":
        """Return the same rows with the functions of operational time of a released life table."""
        return self._with(follow_up=follow_up)

    def in_units(self, max_rows: int | None = None, max_weight: float | None = None) -> "Sample":
        """Return a sample of one replicate whose rows know their unit and their weight, if there are any.

        Several replicates need the same rows. ``max_rows`` and ``max_weight`` are the keywords of
        :class:`dpalgos.core.persons.UnitEstimator`. Rows in memory are sorted by user.
        """
        codes = self.user_codes
        if codes is None and self.row_weights is None:
            return self
        sample = self
        if codes is not None and not self.rows.streamed and (codes[1:] < codes[:-1]).any():
            sample = self.derived(rows=np.argsort(codes, kind="stable"))
        used = np.ones(len(sample.rows), dtype=bool) if sample.row_mask is None else sample.row_mask[:, 0]
        units = weighted_units(
            sample.user_codes,
            used,
            None if max_weight is None else sample.row_weights,
            max_rows,
            max_weight or 1.0,
            is_sorted=not self.rows.streamed,
            shares=sample.row_shares,
        )
        return sample.with_units(units)

    def _with(self, **changes: Any) -> "Sample":
        copy = self.derived(row_mask=self.row_mask)
        counts = {name: vars(self)[name] for name in ("n_rows", "n_users") if name in vars(self)}
        vars(copy).update(counts | changes)
        return copy

    @property
    def has_shared_units(self) -> bool:
        """Whether units of privacy may have several rows."""
        return self.units is not None and self.units.codes is not None

    @property
    def has_shares(self) -> bool:
        """Whether rows are shares: what a unit adds has to be clipped as a whole."""
        return self.units is not None and self.units.whole is not None

    @property
    def partitions(self) -> PartitionedRows | None:
        """The rows, if they are partitioned and nothing lies next to them."""
        alone = all(each is None for each in (self.held_y, self.row_mask, self.moved, self.units))
        return self.rows if alone and isinstance(self.rows, PartitionedRows) else None

    def offset_of(self, values: FloatArray) -> FloatArray | float:
        """Return the offset of stored rows (…, d + 1), (…,), or 0 if there is none."""
        return 0.0 if self.offset_bounds is None else np.clip(values[..., 0], *self.offset_bounds)

    @cached_property
    def n_rows(self) -> FloatArray:
        """Number of rows that each replicate uses, (R,)."""
        if self.row_mask is None:
            return np.full(self.n_replicates, float(len(self.rows)))
        return np.array([np.count_nonzero(own) for own in self.mask_by_replicate], dtype=float)

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

    def means_of_users(self) -> "Sample":
        """Return the means of users' rows as rows, for a sample of one replicate.

        A mean counts as clipped where a row of it was.
        """
        by_user = self.in_units()
        X, units = by_user.X, by_user.units
        assert units is not None
        assert units.starts is not None
        sample = Sample.of_vectors(sums_by_unit(units.weights, X, units.starts))
        if by_user.moved is not None:
            high, low = (each.reduceat(by_user.moved, units.starts[:-1]) for each in (np.maximum, np.minimum))
            sample.moved = np.where(high > 0, high, low)
        return sample

    def check_response(self) -> None:
        """Refuse if there is no y."""
        if not self.responds:
            raise InputError("y is required by this estimator, got None; pass the responses as an (n,) array")

    def response(self) -> FloatArray:
        """Return y, or refuse if there is none."""
        self.check_response()
        assert self.y is not None
        return self.y

    def computed(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """Return the result of ``compute`` for a key; compute it once."""
        if key not in self._computed:
            self._computed[key] = compute()
        value: T = self._computed[key]
        return value
