"""Prepare genotypes of one group for tracing attacks on its released mean.

Rows are people, entries g − 1 in [−1, 1] with g copies of the file's first allele; missing calls are 0, the
public center. SNPs are taken at even distances from the public list, without a look at anybody's calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data.errors import DataError
from data.fetch.genotypes import NO_GROUP, Genotypes
from data.formats.cohort import MISSING

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

VALUE_BOUND = 1.0


@dataclass(frozen=True, eq=False)
class TracedGroup:
    """A group of people whose mean is released.

    Attributes
    ----------
    X : (n, d) array
        g − 1, entries in [−1, 1].
    panel_mean : (d,) array
        Mean of g − 1 among the people outside both groups, a public panel.
    """

    X: FloatArray
    panel_mean: FloatArray

    @property
    def private(self) -> bool:
        """That nothing of the preparation looks at the members' calls."""
        return True

    @property
    def panel_std(self) -> FloatArray:
        """Standard deviations of g at the panel's frequencies p, Hardy–Weinberg: √ 2p(1 − p), (d,)."""
        return np.asarray(np.sqrt((1 - self.panel_mean**2) / 2))


def traced_group(genotypes: Genotypes) -> TracedGroup:
    """Code the calls of a dataset's first group, and the mean of the people outside its groups.

    Raises
    ------
    DataError
        The group is empty, or there is nobody outside the groups.
    """
    group, others = (genotypes.calls[genotypes.group == code] for code in (0, NO_GROUP))
    for calls, who in ((group, f"in the group {genotypes.group_names[0]!r}"), (others, "outside the groups")):
        if not len(calls):
            raise DataError(f"tracing needs people {who}, here is nobody; choose another dataset")
    return TracedGroup(X=_centered(group), panel_mean=_centered(others).mean(axis=0))


def draw_roles(n_people: int, n: int, rngs: Sequence[np.random.Generator]) -> tuple[Mask, Mask, Mask]:
    """Draw n members and n non-members per replicate; return them and the remaining people, (n_people, R).

    Raises
    ------
    DataError
        There are too few people for both and a remainder.
    """
    if not 1 <= n <= (n_people - 1) // 2:
        raise DataError(
            f"n must be between 1 and {(n_people - 1) // 2}, below half of the {n_people:,} people of the "
            f"group, got {n}; choose a smaller one"
        )
    place = np.array([rng.permutation(n_people) for rng in rngs]).T
    return place < n, (place >= n) & (place < 2 * n), place >= 2 * n


def _centered(calls: npt.NDArray[np.int8]) -> FloatArray:
    return np.where(calls == MISSING, 0, calls - 1).astype(np.float64)
