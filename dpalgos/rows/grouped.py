"""A value for each group of rows, and sums of these over all rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, eq=False)
class Grouped(Generic[T]):
    """Groups of rows with a value for each: computed once where rows are held, in every pass if streamed.

    Several groups may hold rows of one replicate: what is summed over rows has to be summed over groups.
    """

    sample: Sample
    function: Callable[[Group], T]
    pairs: list[tuple[Group, T]] | None = None

    def __iter__(self) -> Iterator[tuple[Group, T]]:
        if self.pairs is not None:
            return iter(self.pairs)
        return ((group, self.function(group)) for group in self.sample.row_blocks())

    def total(
        self, shape: tuple[int, ...], part: Callable[[Group, T], FloatArray], *, axis: int = -1
    ) -> FloatArray:
        """Return the sum over all rows, of this shape, of an array per group and its value.

        Replicates are along ``axis``; an array without that axis is shared by all replicates.
        """
        if self.pairs is not None:
            return _summed(self, shape, part, axis)
        function = self.function
        return self.sample.total(
            lambda part_rows: _summed(map_groups(part_rows, function), shape, part, axis)
        )


def map_groups(sample: Sample, function: Callable[[Group], T], *, all_replicates: bool = False) -> Grouped[T]:
    """Apply a function to each group, of :meth:`Sample.groups` or of :meth:`Sample.row_blocks`."""
    if sample.rows.streamed:
        return Grouped(sample, function)
    groups = sample.row_blocks if all_replicates else sample.groups
    return Grouped(sample, function, [(group, function(group)) for group in groups()])


def _summed(
    groups: Iterable[tuple[Group, T]],
    shape: tuple[int, ...],
    part: Callable[[Group, T], FloatArray],
    axis: int,
) -> FloatArray:
    total = np.zeros(shape)
    for group, value in groups:
        total[group.replicates if axis == 0 else (..., group.replicates)] += part(group, value)
    return total
