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
partitions (:mod:`dpalgos.rows.streams`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.release.checks import LARGEST_VALUE, unmasked
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_PER_BLOCK = 256
# Elements of a block of double precision, where rows are short.
_BLOCK_ELEMENTS = 1 << 16

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
        check_shape(self.shape)
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


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse rows without a row or without a column."""
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
