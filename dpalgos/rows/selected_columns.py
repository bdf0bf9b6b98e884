"""Rows of which every replicate has columns of its own, as private selections leave them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")


class SelectedColumns(Sample):
    """A sample with k columns per replicate, for estimators that take their rows in groups.

    ``columns`` holds an array (n_r, k) of each replicate's own rows, ``used`` a slice or mask (n,) of those
    rows.
    """

    def __init__(
        self, sample: Sample, columns: Sequence[FloatArray], used: Sequence[slice | BoolArray]
    ) -> None:
        self._whole, self._columns, self._used = sample, columns, used
        self.n_replicates = sample.n_replicates

    @property
    def responds(self) -> bool:
        """Whether there are responses."""
        return self._whole.responds

    @property
    def n_features(self) -> int:
        """Number of columns k."""
        return int(self._columns[0].shape[1])

    @property
    def n_rows(self) -> FloatArray:
        """Number of rows that each replicate uses, (R,)."""
        return self._whole.n_rows

    def groups(self) -> Iterator[Group]:
        """Yield one replicate after the other."""
        y = self._whole.response()
        for r, (X, rows) in enumerate(zip(self._columns, self._used, strict=True)):
            index: slice | IntArray = rows if isinstance(rows, slice) else np.flatnonzero(rows)
            yield Group(slice(r, r + 1), index, X, y[rows], np.ones((len(X), 1)))

    def grouped(self, made: Callable[[Group], T], *, together: bool = False) -> Grouped[T]:
        """Apply a function to each replicate."""
        return Grouped(self.groups, made, [(group, made(group)) for group in self.groups()])
