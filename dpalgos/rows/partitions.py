"""Rows in partitions, such as the files of a folder, which may be read by other processes or machines.

A pass computes a partial sum of each partition, in the same way and order as for a single stream. Partial
sums are added in the order of the partitions, whichever was computed first and wherever. Therefore an
estimate does not depend on the number of processes. The process that adds the partial sums also draws the
noise of the total.

The cost of rounding (:mod:`dpalgos.rows.blocks`): a neighbor differs in one row, so in one block of one
partition. The partial sums of the other partitions are the same bits. Let a row add at most c to a sum,
Δ = 2c. Within its partition, of m rows in K blocks, sums of blocks are added in double precision. Each
addition has an error of at most u m c. So the partial sum moves by at most K u m Δ more than it should.
Across partitions :func:`total_of` carries along the rounding error of each addition. So the error of the
total is about u n c, whatever the number of partitions (Ogita, Rump and Oishi 2005, Sum2). The total moves
by at most u n Δ more. Let partitions have up to 10⁷ rows in blocks of 4096, and n be up to 5 · 10¹⁰. Then
both errors are below 10⁻⁵ Δ, and are neglected.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.rows.blocks import Blocks, Piece, StreamedRows
from dpalgos.typing import FloatArray

T = TypeVar("T")


# Applies a function to the partitions, here or elsewhere, and yields the results in their order.
Mapper = Callable[[Callable[[StreamedRows], Any], Sequence[StreamedRows]], Iterable[Any]]


class PartitionedRows(StreamedRows):
    """Rows of several streams, one after the other; a pass computes partial sums of them.

    Parameters
    ----------
    partitions : sequence of (callable, int)
        A stream as :class:`dpalgos.rows.blocks.StreamedRows` takes it, and its number of rows.
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
