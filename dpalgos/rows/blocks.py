"""Rows of a design, held in memory or streamed, cut into the same blocks either way.

Products with a design are computed block by block, in this order and these sizes. Therefore a streamed design
gives the same numbers as one in memory to the last bit. No copy as large as the design is made. Single
precision is kept, since wide designs are limited by memory.

The cost of rounding: products of a block are summed in the design's own precision, blocks in double. A
neighbor differs in one row, so in one block; the sums of the other blocks are the same bits. Let entries be
at most b, factors at most c, and a block have B rows. Let γ = B u / (1 − B u). In any order of summation, the
computed sum of a block has an error of at most γ B·b·c (Higham 2002, section 3.1). A factor is rounded too.
So if a sum moves by Δ = 2 b c, the computed sum moves by at most (1 + γ (B + 1)) Δ. This holds entry by
entry and in ℓ2. :attr:`Stored.rounding` is that factor, 1.004 for single precision (u = 2⁻²⁴, B = 2⁸). If a
private estimator requests single precision, it multiplies its sensitivity by this factor. Other estimators
get double precision, block by block.

In double precision a block adds less than 10⁻⁹ to that, which is neglected. The error of sums of K blocks is
neglected, too: their additions have an error of at most K u n b c. In the worst case it is 10⁻⁵ of Δ, up to
about 10⁷ rows in blocks of 4096. In fact the error grows with the root of K instead of K. More rows go in
partitions (:mod:`dpalgos.rows.partitions`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.release.checks import LARGEST_VALUE, unmasked
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_PER_BLOCK = 256
# Elements of a block of double precision, where rows are short.
_BLOCK_ELEMENTS = 1 << 16

Blocks = Callable[[], Iterable[object]]
# Which rows, the rows, and their responses if they come along.
Piece = tuple[slice, FloatArray, FloatArray | None]
A = TypeVar("A", FloatArray, BoolArray)


class Stored(ABC):
    """A design of n rows and d columns of finite numbers.

    ``largest`` is the largest magnitude of an entry, infinite where it is not known; ``streamed`` rows are
    read anew for every pass. Code that reads a few columns many times sets ``keeps_columns``. Rows in memory
    then stay in memory by column, too.
    """

    streamed, keeps_columns = False, False
    shape: tuple[int, int]
    dtype: np.dtype[np.floating]
    largest: float

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def rounding(self) -> float:
        """Factor on the sensitivity of a mean of products, for rounding; see the module."""
        if self.dtype == np.float64:
            return 1.0
        roundoff = _ROWS_PER_BLOCK * float(np.finfo(self.dtype).eps) / 2
        return 1 + (_ROWS_PER_BLOCK + 1) * roundoff / (1 - roundoff)

    @property
    def block_size(self) -> int:
        """Number of rows in a block."""
        short = _BLOCK_ELEMENTS // self.shape[1] if self.dtype == np.float64 else 0
        # A power of two, as sizes of pieces that are read from files mostly are.
        return max(_ROWS_PER_BLOCK, 1 << short.bit_length() - 1 if short else 0)

    @abstractmethod
    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield all rows in order: which, and the block; a block is valid until the next one."""

    @abstractmethod
    def array(self) -> FloatArray:
        """Return all rows, or refuse if they are not in memory."""

    def taken(self, chosen: BoolArray | IntArray) -> "HeldRows":
        """Return some of the rows (n,), which are not validated again; refused if they are streamed."""
        return HeldRows.trusted(self.array()[chosen], self.largest)

    def columns(self, chosen: IntArray) -> FloatArray:
        """Return a copy of some columns, (n, k)."""
        return np.concatenate([block.take(chosen, axis=1) for _, block in self.blocks()])

    def some_columns(self, rows: slice, block: FloatArray, chosen: IntArray | slice) -> FloatArray:
        """Return some columns of a block, (k, m)."""
        return np.ascontiguousarray(block[:, chosen].T)


class HeldRows(Stored):
    """Rows in memory that no other code changes: copied, except arrays that are read-only.

    A read-only array must have no writable view that was made before.
    Known facts about the rows, such as their largest entry, decide where they are truncated.
    """

    def __init__(self, values: object) -> None:
        self._array = unchanging(float_array("X", values, n_dimensions=2))
        self.shape, self.dtype = self._array.shape, self._array.dtype
        _check_shape(self.shape)
        self.largest = largest_magnitude("X", (block for _, block in self.blocks()))
        self._by_column: dict[int, FloatArray] = {}  # blocks (d, m) by their first row

    @classmethod
    def trusted(cls, array: FloatArray, largest: float = np.inf) -> "HeldRows":
        """Return rows that are not validated: some of validated rows, or vectors computed from them."""
        rows = object.__new__(cls)
        array.flags.writeable = False
        rows._array, rows._by_column = array, {}
        rows.shape, rows.dtype, rows.largest = array.shape, array.dtype, largest
        return rows

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        for start in range(0, len(self), self.block_size):
            rows = slice(start, min(start + self.block_size, len(self)))
            yield rows, self._array[rows]

    def some_columns(self, rows: slice, block: FloatArray, chosen: IntArray | slice) -> FloatArray:
        if not self.keeps_columns:
            return super().some_columns(rows, block, chosen)
        if rows.start not in self._by_column:
            self._by_column[rows.start] = np.ascontiguousarray(block.T)
        return self._by_column[rows.start][chosen]

    def array(self) -> FloatArray:
        return self._array


class StreamRefused(InputError):
    """An estimator needs its rows in memory, and they are streamed."""

    def __init__(self) -> None:
        super().__init__(
            "X must be an array in memory for this estimator, got a stream of blocks; "
            "only estimators that pass over the rows take one"
        )


class StreamedRows(Stored):
    """Rows that every pass reads again and that are never held in memory.

    Parameters
    ----------
    read : callable
        Returns an iterable of blocks of rows, or of pairs of a block and the responses (m,) of its rows. It
        has all rows in order, the same in every pass. A block is an (m, d) array, any m, or a mapping from
        names to columns (m,).
    n_rows : int, optional
        Number of rows. If it is given, there is no extra pass that counts and checks the rows. Values are
        checked in every pass, and a pass ends before anything is released from it.
    """

    streamed = True
    _names: list[Any] | None = None  # of the first block's columns

    def __init__(self, read: Blocks, n_rows: int | None = None) -> None:
        self._read = read
        self.shape, self.largest, self.responds = (0, 0), np.inf, False
        n, largest = 0, 0.0
        dtypes: set[np.dtype[np.floating]] = set()
        for values, responses in self._parted_blocks():
            if not dtypes:
                self.shape, self.responds = (0, values.shape[1]), responses is not None
            dtypes.add(values.dtype)
            if n_rows is not None:
                break
            self._check_parts(values, responses)
            largest = max(largest, largest_magnitude("X", [values]))
            n += len(values)
        else:
            self.largest = largest
        self.shape = (n if n_rows is None else n_rows, self.shape[1])
        _check_shape(self.shape)
        self.dtype = max(dtypes, key=lambda dtype: dtype.itemsize)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        return ((rows, block) for rows, block, _ in self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows and their responses."""
        start, size = 0, min(self.block_size, len(self))
        X, y = np.empty((0, self.shape[1]), self.dtype), np.empty(0)
        for values, responses in self._checked_blocks():
            X = np.concatenate([X, values]) if len(X) else values.astype(self.dtype, copy=False)
            if responses is not None:
                y = np.concatenate([y, responses])
            while len(X) >= size:
                yield slice(start, start + size), X[:size], y[:size] if self.responds else None
                X, y, start = X[size:], y[size:], start + size
        if len(X):
            yield slice(start, start + len(X)), X, y if self.responds else None

    def _parted_blocks(self) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """Yield rows and responses; refuse a block whose columns have other names than the first one's."""
        pieces = self._read()
        if not np.iterable(pieces):
            raise InputError(f"X must return an iterable of blocks, got {type(pieces).__name__}")
        for piece in pieces:
            rows: Any = piece[0] if isinstance(piece, tuple) else piece
            names = list(rows if isinstance(rows, Mapping) else getattr(rows, "columns", ()))
            self._names = names if self._names is None else self._names
            if names != self._names:
                raise InputError("X must have the same columns in every block, in one order, got others")
            yield _parted(piece)

    def _checked_blocks(self) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """Yield what the stream gives, checked; refuse more or fewer rows."""
        n = 0
        for values, responses in self._parted_blocks():
            self._check_parts(values, responses)
            if values.dtype.itemsize > self.dtype.itemsize:
                raise InputError(  # or a large value would become infinite after it was checked
                    "X must have one precision in every block, got single first and then double; convert "
                    "all blocks to float64"
                )
            self._check_values(values)
            n += len(values)
            yield values, responses
        if n != len(self):
            raise InputError(f"X must give the same rows in every pass, got {len(self)} and then {n}")

    def _check_parts(self, values: FloatArray, responses: FloatArray | None) -> None:
        """Refuse other columns than before, and responses that come only sometimes or are not finite."""
        if values.shape[1] != self.shape[1]:
            widths = sorted({self.shape[1], values.shape[1]})
            raise InputError(f"X must have the same columns in every block, got {widths} columns")
        if (responses is not None) != self.responds:
            raise InputError("X must bring responses with every block or with none, got some of each")
        if responses is not None:
            _check_magnitudes("y", responses)

    def _check_values(self, values: FloatArray) -> None:
        """Refuse entries that are not finite, or that would escape decisions of the first pass."""
        if self.largest == np.inf:
            _check_magnitudes("X", values)
        elif largest_magnitude("X", [values]) > self.largest:
            raise InputError(
                "X must give the same rows in every pass, got a larger value than in the first one; "
                "return the same blocks whenever it is called"
            )

    def array(self) -> FloatArray:
        raise StreamRefused


def _parted(piece: object) -> tuple[FloatArray, FloatArray | None]:
    """Return a block of a stream as rows and, if they come along, responses."""
    rows, responses = piece if isinstance(piece, tuple) else (piece, None)
    if isinstance(rows, Mapping):
        columns = [float_array("X", column, n_dimensions=1) for column in rows.values()]
        lengths = sorted({len(column) for column in columns})
        if len(lengths) > 1:
            raise InputError(f"X must have columns of one length in every block, got {lengths} rows")
        values = np.stack(columns).T if columns else np.empty((0, 0))  # column by column: least time
    else:
        values = float_array("X", rows, n_dimensions=2)
    if not isinstance(piece, tuple):
        return values, None
    responses = float_array("y", responses, n_dimensions=1)
    if len(values) != len(responses):
        raise InputError(
            f"y must have one entry per row of X, got {len(responses)} entries for {len(values)} rows"
        )
    return values, responses


def float_array(name: str, values: object, *, n_dimensions: int) -> FloatArray:
    """Return numbers as a contiguous array, float32 where they are, else float64."""
    unmasked(name, values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers in rows of one length, got other values") from None
    if array.dtype.kind not in "iufb":
        raise InputError(f"{name} must hold numbers, got dtype {array.dtype}; convert it to float first")
    if array.ndim != n_dimensions:
        expected = "(n, d)" if n_dimensions == 2 else "(n,)"
        raise InputError(f"{name} must have shape {expected}, got {array.ndim} dimension(s)")
    return np.ascontiguousarray(array, dtype=array.dtype if array.dtype == np.float32 else np.float64)


def unchanging(array: A) -> A:
    """Return an array that no other code changes: itself if it is read-only to its owner, else a copy."""
    owner: object = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if owner is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


def _check_magnitudes(name: str, values: FloatArray) -> None:
    """Refuse what is not finite or too large.

    The sum of all squares, a single product, bounds every square, and is not finite if any value is not. Only
    where it is too large, as it may be in single precision by overflow, are all values looked at. A warning
    of overflow would tell that one row is large.
    """
    flat = values.ravel(order="K")
    with np.errstate(over="ignore"):
        small = float(np.dot(flat, flat)) <= LARGEST_VALUE**2
    if not small:
        largest_magnitude(name, [values])


def largest_magnitude(name: str, blocks: Iterable[FloatArray]) -> float:
    """Return the largest magnitude in some blocks, or refuse what is not finite or too large."""
    largest = 0.0
    for block in blocks:
        if block.size:
            extremes = float(block.max()), -float(block.min())  # NaN if any is
            largest = max(largest, *extremes)
            if not np.isfinite(extremes).all():
                raise InputError(
                    f"{name} must be finite, got NaN or infinite values; drop or repair those rows first"
                )
    if largest > LARGEST_VALUE:
        raise InputError(f"{name} must lie within ±{LARGEST_VALUE:g}, got a larger value; change its unit")
    return largest


def _check_shape(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise InputError(f"X must have at least one row and one column, got shape {shape}")


def finite_vector(name: str, values: object) -> FloatArray:
    """Return a vector (n,) of finite numbers that cannot change, or refuse."""
    vector = unchanging(float_array(name, values, n_dimensions=1).astype(np.float64, copy=False))
    largest_magnitude(name, [vector])
    return vector


def checked_mask(row_mask: object, n: int, n_replicates: int) -> BoolArray:
    """Return which rows each replicate uses, (n, R), or refuse; those of one replicate are adjacent."""
    mask = np.asarray(row_mask)
    if mask.dtype != np.bool_:
        raise InputError(f"row_mask must be a boolean array, got dtype {mask.dtype}")
    if mask.ndim == 1 and n_replicates == 1:
        mask = mask[:, None]
    if mask.shape != (n, n_replicates):
        raise InputError(f"row_mask must have shape (n, replicates) = {(n, n_replicates)}, got {mask.shape}")
    by_replicate = np.asfortranarray(mask)
    if not by_replicate.any(axis=0).all():
        raise InputError("row_mask must give every replicate at least one row, got a column without any")
    if by_replicate is mask:
        return unchanging(mask)
    by_replicate.flags.writeable = False
    return by_replicate


def check_public_rows(name: str, value: Any) -> FloatArray:
    """Return public rows (m, d), or refuse what is none."""
    rows = float_array(name, value, n_dimensions=2).astype(float)
    if len(rows) == 0:
        raise InputError(f"{name} must have at least one row, got none; leave it out")
    largest_magnitude(name, [rows])
    return rows


def check_public_columns(rows: FloatArray | None, n_features: int) -> FloatArray:
    """Return public rows, or refuse those that are missing or have other columns than X."""
    if rows is None:
        raise InputError("public_X must be given, got none; pass public rows with the columns of X")
    if rows.shape[1] != n_features:
        raise InputError(f"public_X must have the columns of X, {n_features}, got {rows.shape[1]}")
    return rows
