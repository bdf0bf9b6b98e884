"""Rows of a design, held in memory or streamed, cut into the same blocks either way.

Products with a design are computed block by block, in this order and these sizes, so that a streamed design
gives the numbers of one in memory to the last bit, and no copy as large as the design is made but where many
sparse fits run side by side (:meth:`Rows.hold_columns`; their predictors round otherwise). Single precision
is kept, since wide designs are limited by memory.

What rounding costs. Products of a block are summed in the design's own precision, blocks in double. A
neighbor differs in one row, hence in one block; the others' sums are the same bits. With entries of at most
b and factors of at most c, B of them to a block, the computed sum of a block is off by at most γ B b c,
γ = B u / (1 − B u), in whatever order it was summed (Higham 2002, section 3.1); a factor is rounded too. So
what moves by Δ = 2 b c moves by at most (1 + γ (B + 1)) Δ as computed, entry by entry and in ℓ2.
:attr:`Rows.rounding` is that factor, 1.004 for single precision (u = 2⁻²⁴, B = 2⁸), by which a private
estimator that asks for single precision multiplies its sensitivity; the others get double precision, block by
block. Moments X'X and X'y stand for such a sum too: row i's part of entry j of X'y − X'Xβ, β public, is
products x_j y and x_j x_k β_k whose magnitudes sum to b c at most, c = R + b ‖β‖₁.

In double precision a block adds less than 10⁻⁹ to that, and counts as nothing. So do sums of K blocks, whose
additions are off by at most K u n b c: in the worst case 10⁻⁵ of Δ up to about 10⁷ rows in blocks of 4096, in
fact the root of K instead of K. More rows go in partitions (:mod:`dpalgos.rows.partitions`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.release.checks import unmasked
from dpalgos.rows.threads import in_order
from dpalgos.typing import BoolArray, FloatArray, IntArray

# Beyond this, squares of squares overflow, and an overflow would show a single row through all clipping.
LARGEST_VALUE = 1e60

_ROWS_PER_BLOCK = 256
# Elements of a block of double precision, where rows are short.
_BLOCK_ELEMENTS = 1 << 16

Blocks = Callable[[], Iterable[object]]
# Which rows and the rows, of adjacent blocks.
Span = Sequence[tuple[slice, FloatArray]]
# Which rows, the rows, and their responses if they come along.
Piece = tuple[slice, FloatArray, FloatArray | None]
# Rows as a stream gives them: an array (m, d), or its columns.
Given = FloatArray | list[FloatArray]
A = TypeVar("A", FloatArray, BoolArray)


class ColumnPiece(NamedTuple):
    """Some rows by column; ``squares`` (m,), their squared ℓ2 norms, may be overwritten."""

    rows: slice
    columns: list[FloatArray]
    squares: FloatArray
    responses: FloatArray | None


class Rows(ABC):
    """A design of n rows and d columns of finite numbers.

    ``largest`` is the largest magnitude of an entry, infinite where it is not known; ``streamed`` rows are
    read anew for every pass; where ``columns_held``, those in memory are held by column, too.
    """

    streamed, columns_held = False, False
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
        unit = _ROWS_PER_BLOCK * float(np.finfo(self.dtype).eps) / 2
        return 1 + (_ROWS_PER_BLOCK + 1) * unit / (1 - unit)

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

    def taken(self, chosen: BoolArray) -> "HeldRows":
        """Return some of the rows (n,), which are not validated again; refused if they are streamed."""
        some = object.__new__(HeldRows)
        some._array = self.array()[chosen]
        some._array.flags.writeable = False
        some.shape, some.dtype, some.largest = some._array.shape, self.dtype, self.largest
        return some

    def columns(self, chosen: IntArray) -> FloatArray:
        """Return a copy of some columns, (n, k)."""
        taken = np.empty((len(self), len(chosen)), self.dtype)
        for rows, block in self.blocks():
            taken[rows] = self.some_columns([(rows, block)], chosen)
        return taken

    def some_columns(self, span: Span, chosen: IntArray) -> FloatArray:
        """Return a copy of some columns of adjacent blocks, (m, k)."""
        return np.concatenate([block.take(chosen, axis=1) for _, block in span])

    @abstractmethod
    def hold_columns(self, threads: int = 1) -> None:
        """Hold rows in memory by column, too, for many calls of :meth:`held_columns`."""

    @abstractmethod
    def held_columns(self, rows: slice) -> FloatArray:
        """Return the columns of a block, (d, m), where ``columns_held``."""


class HeldRows(Rows):
    """Rows in memory that no other code changes: copied, except arrays that are read-only.

    Of a read-only array no view may be left that was made before and can be written to.
    What is known of them, their largest entry first of all, decides where they are truncated.
    """

    _columns: list[FloatArray] | None = None  # of each block

    def __init__(self, values: object) -> None:
        self._array = unchanging(float_array("X", values, n_dimensions=2))
        self.shape, self.dtype = self._array.shape, self._array.dtype
        _check_shape(self.shape)
        self.largest = largest_magnitude("X", (block for _, block in self.blocks()))

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        for start in range(0, len(self), self.block_size):
            rows = slice(start, min(start + self.block_size, len(self)))
            yield rows, self._array[rows]

    def hold_columns(self, threads: int = 1) -> None:
        if self._columns is None:
            self._columns = list(in_order(_transposed, self.blocks(), threads))
        self.columns_held = True

    def held_columns(self, rows: slice) -> FloatArray:
        assert self._columns is not None
        return self._columns[int(rows.start) // self.block_size]

    def array(self) -> FloatArray:
        return self._array


def _transposed(part: tuple[slice, FloatArray]) -> FloatArray:
    copy: FloatArray = np.ascontiguousarray(part[1].T)
    return copy


class StreamRefused(InputError):
    """An estimator needs its rows in memory, and they are streamed."""


class StreamedRows(Rows):
    """Rows that every pass reads again and that are never held in memory.

    Parameters
    ----------
    read : callable
        Returns an iterable of blocks of rows, or of pairs of a block and the responses (m,) of its rows: all
        rows in order, the same in every pass. A block is an (m, d) array, any m, or a mapping from names to
        columns (m,), which are used where they lie.
    n_rows : int, optional
        How many there are. If it is known, no pass is spent on counting and checking them: values are checked
        in every pass, and a pass ends before anything is released of it.
    """

    streamed = True

    def __init__(self, read: Blocks, n_rows: int | None = None) -> None:
        self._read = read
        self.shape, self.largest, self.responds = (0, 0), np.inf, False
        n, largest, self._by_columns = 0, 0.0, False
        dtypes: set[np.dtype[np.floating]] = set()
        for values, responses in map(_parted, read()):
            if not dtypes:
                self.shape, self.responds = (0, _width(values)), responses is not None
                self._by_columns = isinstance(values, list)
            dtypes.update(array.dtype for array in _arrays(values))
            if n_rows is not None:
                break
            self._check_parts(values, responses)
            largest = max(largest, largest_magnitude("X", _arrays(values)))
            n += _height(values)
        else:
            self.largest = largest
        self.shape = (n if n_rows is None else n_rows, self.shape[1])
        _check_shape(self.shape)
        self.dtype = max(dtypes, key=lambda dtype: dtype.itemsize)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows, in arrays that the next block may overwrite."""
        return ((rows, block) for rows, block, _ in self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows and their responses, in arrays that the next piece may overwrite."""
        size = min(self.block_size, len(self))
        buffer = np.empty((size, self.shape[1]), self.dtype, order="F" if self._by_columns else "C")
        kept = np.empty(size)
        start, filled = 0, 0
        for values, responses in self._given():
            self._check_values(_arrays(values))
            taken, height = 0, _height(values)
            while taken < height:
                step = min(size - filled, height - taken)
                chosen = slice(taken, taken + step)
                taken += step
                if step == size and not isinstance(values, list):  # nothing to put together
                    own = None if responses is None else responses[chosen]
                    yield slice(start, start + size), values[chosen].astype(self.dtype, copy=False), own
                    start += size
                    continue
                _fill(buffer[filled : filled + step], values, chosen)
                if responses is not None:
                    kept[filled : filled + step] = responses[chosen]
                filled += step
                if filled == size:
                    yield self._put_together(start, buffer, kept)
                    start, filled = start + size, 0
        if filled:
            yield self._put_together(start, buffer[:filled], kept[:filled])

    def column_pieces(self) -> Iterator[ColumnPiece]:
        """Yield the rows, at most a block of them, as columns; squares are overwritten by the next piece.

        Squares of the squares, a single product, tell that all entries are finite: no other pass over them.
        """
        start, size = 0, self.block_size
        buffer: FloatArray = np.empty((2, size))
        for values, responses in self._given():
            whole, height = values if isinstance(values, list) else list(values.T), _height(values)
            for top in range(0, height, size):
                stop = min(top + size, height)
                columns = [column[top:stop] for column in whole]
                squares = _row_squares(columns, *buffer[:, : stop - top])
                if self.largest < np.inf or not float(np.dot(squares, squares)) <= LARGEST_VALUE**4:
                    self._check_values(columns)
                own = None if responses is None else responses[top:stop]
                yield ColumnPiece(slice(start + top, start + stop), columns, squares, own)
            start += height

    def _given(self) -> Iterator[tuple[Given, FloatArray | None]]:
        """Yield what the stream gives, all but the entries of rows checked; refuse more or fewer rows."""
        n = 0
        for values, responses in map(_parted, self._read()):
            self._check_parts(values, responses)
            if any(array.dtype.itemsize > self.dtype.itemsize for array in _arrays(values)):
                raise InputError(  # or a large value would become infinite after it was checked
                    "X must have one precision in every block, got single first and then double; convert "
                    "all blocks to float64"
                )
            n += _height(values)
            yield values, responses
        if n != len(self):
            raise InputError(f"X must give the same rows in every pass, got {len(self)} and then {n}")

    def _put_together(self, start: int, buffer: FloatArray, kept: FloatArray) -> Piece:
        return slice(start, start + len(buffer)), buffer, kept if self.responds else None

    def _check_parts(self, values: Given, responses: FloatArray | None) -> None:
        """Refuse other columns than before, and responses that come only sometimes or are not finite."""
        if _width(values) != self.shape[1]:
            widths = sorted({self.shape[1], _width(values)})
            raise InputError(f"X must have the same columns in every block, got {widths} columns")
        if (responses is not None) != self.responds:
            raise InputError("X must bring responses with every block or with none, got some of each")
        if responses is not None:
            _check_magnitudes("y", [responses])

    def _check_values(self, arrays: list[FloatArray]) -> None:
        """Refuse entries that are not finite, or that would escape decisions of the first pass."""
        if self.largest == np.inf:
            _check_magnitudes("X", arrays)
        elif largest_magnitude("X", arrays) > self.largest:
            raise InputError(
                "X must give the same rows in every pass, got a larger value than in the first one; "
                "return the same blocks whenever it is called"
            )

    def hold_columns(self, threads: int = 1) -> None:
        """Do nothing, for a stream is not held."""

    def held_columns(self, rows: slice) -> FloatArray:
        raise AssertionError("a stream is not held")

    def array(self) -> FloatArray:
        raise StreamRefused(
            "X must be an array in memory for this estimator, got a stream of blocks; "
            "only estimators that pass over the rows take one"
        )


def _parted(piece: object) -> tuple[Given, FloatArray | None]:
    """Return a block of a stream as rows or columns and, if they come along, responses."""
    rows, given = piece if isinstance(piece, tuple) else (piece, None)
    values: Given
    if isinstance(rows, Mapping):
        values = [_in_place("X", column, 1) for column in rows.values()]
        lengths = sorted({len(column) for column in values})
        if len(lengths) > 1:
            raise InputError(f"X must have columns of one length in every block, got {lengths} rows")
    else:
        values = _in_place("X", rows, 2)
    if not isinstance(piece, tuple):
        return values, None
    responses = _in_place("y", given, 1)
    if _height(values) != len(responses):
        raise InputError(
            f"y must have one entry per row of X, got {len(responses)} entries for {_height(values)} rows"
        )
    return values, responses


def _row_squares(columns: list[FloatArray], squares: FloatArray, scratch: FloatArray) -> FloatArray:
    """Return ``squares`` (m,), the rows' squared norms in double precision; both arrays are written to."""
    np.multiply(columns[0], columns[0], out=squares, dtype=float)
    for column in columns[1:]:
        np.add(squares, np.multiply(column, column, out=scratch, dtype=float), out=squares)
    return squares


def _arrays(values: Given) -> list[FloatArray]:
    return values if isinstance(values, list) else [values]


def _height(values: Given) -> int:
    return len(values[0]) if len(values) and isinstance(values, list) else len(values)


def _width(values: Given) -> int:
    return len(values) if isinstance(values, list) else int(values.shape[1])


def _fill(into: FloatArray, values: Given, chosen: slice) -> None:
    if isinstance(values, list):
        for j, column in enumerate(values):
            into[:, j] = column[chosen]
    else:
        into[:] = values[chosen]


def _in_place(name: str, values: object, n_dimensions: int) -> FloatArray:
    """Return numbers as they lie, by rows or by columns, where that is a precision that is computed in."""
    known = type(values) is np.ndarray and values.ndim == n_dimensions
    if known and values.dtype in (np.float32, np.float64):  # type: ignore[attr-defined]
        return values  # type: ignore[return-value]
    return float_array(name, values, n_dimensions=n_dimensions)


def float_array(name: str, values: object, *, n_dimensions: int) -> FloatArray:
    """Return numbers as a contiguous array, float32 where they are, else float64."""
    array = np.asarray(unmasked(name, values))
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


def _check_magnitudes(name: str, arrays: Iterable[FloatArray]) -> None:
    """Refuse what is not finite or too large.

    The sum of all squares, a single product, bounds every square, and is not finite if any value is not. Only
    where it is too large, as it may be in single precision by overflow, are all values looked at. A warning
    of overflow would tell that one row is large.
    """
    for array in arrays:
        contiguous = array.flags.c_contiguous or array.flags.f_contiguous
        flat = array.ravel(order="K") if contiguous else None
        with np.errstate(over="ignore"):
            small = flat is not None and float(np.dot(flat, flat)) <= LARGEST_VALUE**2
        if not small:
            largest_magnitude(name, [array])


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
