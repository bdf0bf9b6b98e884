"""Rows that are never held in memory: every pass reads them again, as one stream or in partitions.

Partitions, such as the files of a folder, may be read by other processes or machines. A pass computes a
partial sum of each partition, in the same way and order as for a single stream. Partial sums are added in the
order of the partitions, whichever was computed first and wherever. Therefore an estimate does not depend on
the number of processes. The process that adds the partial sums also draws the noise of the total.

The cost of rounding (:mod:`dpalgos.rows.blocks`): a neighbor differs in one row, so in one block of one
partition. The partial sums of the other partitions are the same bits. Let a row add at most c to a sum,
Δ = 2c. Within its partition, of m rows in K blocks, sums of blocks are added in double precision. Each
addition has an error of at most u m c. So the partial sum moves by at most K u m Δ more than it should.
Across partitions :func:`total_of` carries along the rounding error of each addition. So the error of the
total is about u n c, whatever the number of partitions (Ogita, Rump and Oishi 2005, Sum2). The total moves
by at most u n Δ more. Let partitions have up to 10⁷ rows in blocks of 4096, and n be up to 5 · 10¹⁰. Then
both errors are below 10⁻⁵ Δ, and are neglected.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.release.checks import LARGEST_VALUE
from dpalgos.rows.blocks import Stored, check_shape, float_array, largest_magnitude
from dpalgos.typing import FloatArray

T = TypeVar("T")


Blocks = Callable[[], Iterable[object]]


# Which rows, the rows, and their responses if they come along.
Piece = tuple[slice, FloatArray, FloatArray | None]


class StreamRefused(InputError):
    """An estimator needs its rows in memory, and they are streamed."""

    def __init__(self) -> None:
        super().__init__(
            "X must be an array in memory for this estimator, got a stream of blocks; "
            "only estimators that pass over the rows take one"
        )


class StreamedRows(Stored):
    """Rows of one stream, which gives them all in every pass.

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
        check_shape(self.shape)
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


# Applies a function to the partitions, here or elsewhere, and yields the results in their order.
Mapper = Callable[[Callable[[StreamedRows], Any], Sequence[StreamedRows]], Iterable[Any]]


class PartitionedRows(StreamedRows):
    """Rows of several streams, one after the other; a pass computes partial sums of them.

    Parameters
    ----------
    partitions : sequence of (callable, int)
        A stream as :class:`dpalgos.rows.streams.StreamedRows` takes it, and its number of rows.
    mapper : callable, optional
        Where partial sums are computed: ``map``, in this process, or e.g. the ``map`` of an executor. It
        sends the streams, and functions on them, elsewhere; the module cloudpickle can write both.
    """

    def __init__(self, partitions: Sequence[tuple[Blocks, int]], mapper: Mapper = map) -> None:
        if not partitions:
            raise InputError("X must have at least one partition, got none")
        first = StreamedRows(*partitions[0])
        self.__dict__.update(vars(first))
        self.shape = (sum(n for _, n in partitions), first.shape[1])
        self._mapper = mapper
        self._parts = [_like(first, read, n) for read, n in partitions]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what reads rows, and the mapper: another process is sent the partitions it needs."""
        return {name: self.__dict__[name] for name in ("shape", "dtype", "largest", "responds")}

    def mapped(self, function: Callable[[StreamedRows], T]) -> Iterable[T]:
        """Apply a function to each partition; the results come in order."""
        results = self._mapper(function, self._parts)
        return (result for result, _ in zip(results, self._parts, strict=True))

    def pieces(self) -> Iterator[Piece]:
        start = 0
        for part in self._parts:
            for rows, block, responses in part.pieces():
                yield slice(rows.start + start, rows.stop + start), block, responses
            start += len(part)


def total_of(partials: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of arrays in their order, rounded about once; of a single one the same bits."""
    arrays = iter(partials)
    total = next(arrays)
    lost: FloatArray | None = None
    for partial in arrays:
        rounded = total + partial
        back = rounded - total
        error = (total - (rounded - back)) + (partial - back)
        lost = error if lost is None else lost + error
        total = rounded
    return total if lost is None else np.asarray(total + lost)


def _like(first: StreamedRows, read: Blocks, n_rows: int) -> StreamedRows:
    """Return rows of the width and precision of the first partition, of which nothing is read yet."""
    part = copy(first)
    part._read, part.shape = read, (n_rows, first.shape[1])
    return part
