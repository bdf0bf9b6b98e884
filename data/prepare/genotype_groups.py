"""Prepare the SNP studies: choose SNPs, and write one group or the difference of two as rows of people.

The unit of privacy is a person. With g the number of copies of an allele (0, 1 or 2) and m people drawn from
each group, the estimand's estimate

    (1/m) Σ_first g − (1/m) Σ_second g  =  (1/2m) Σ_people ±2(g − 1)

is a mean of 2m rows in [−2, 2], one per person. Replacing one row changes a coordinate by at most 2·2/(2m) =
2/m. `dp_sparse_mean` with ``value_bound=2`` uses this sensitivity for 2m rows. The paper's unit is a pair.
Its m rows x1 − x2, also in [−2, 2], have the same mean and sensitivity 2·2/m = 4/m. In both cases the groups
and their sizes must be public.

Tracing attacks the mean of one group; its rows are g − 1 in [−1, 1].

g counts copies of the file's first allele. Missing calls are replaced by 1, the public center, which shrinks
a difference towards zero. A person with more than a public share of missing calls is dropped, by a rule on
the person's own record. SNPs at even distances are a public choice. So are SNPs chosen from people outside
both groups, who are taken as public. SNPs chosen from the compared people are not private.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from data.errors import DataError, require_size
from data.fetch.genotypes import NO_GROUP, Genotypes, has_enough_calls
from data.formats.cohort import MISSING

VALUE_BOUND = 2.0
CENTER = 1

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GroupDifference:
    """Two groups of people at the chosen SNPs, as rows whose mean is the difference of group means."""

    X: FloatArray  # (n, d): ±2(g − 1), + for the first group, which comes first; C-contiguous
    sizes: tuple[int, int]  # people of each group
    target: FloatArray  # (d,): mean of the first group less mean of the second
    snps: Mapping[str, Sequence[Any]]  # name, chromosome, position and alleles of each SNP, (d,)
    panel: FloatArray  # (k, d): 2(g − 1) of the people outside both groups, taken as public
    panel_labels: IntArray  # (k,): codes of their labels, such as populations

    @property
    def public_rows(self) -> FloatArray | None:
        """The panel's people as rows of each group, like those of X, (2k, d); None without a panel."""
        return np.concatenate([self.panel, -self.panel]) if len(self.panel) else None

    @property
    def public_groups(self) -> IntArray:
        """Codes of label and sign of the public rows, (2k,)."""
        return np.concatenate([2 * self.panel_labels, 2 * self.panel_labels + 1])

    def limits(self, s: int) -> dict[str, float]:
        """Return reference values for errors, in allele copies per SNP (root mean square).

        They use the people who are compared, and judge a study; they are no private estimates.

        - ``chance``: the difference between two groups of these sizes, drawn from all people at random. Its
          square has the mean c tr Σ and about the variance 2 c² tr Σ², with the covariance Σ of the counts
          and c = 1/n₁ + 1/n₂. ``largest_by_chance`` is two standard deviations above.
        - ``sparse_floor``: the smallest error of an estimate with s entries.
        """
        counts = self.X / VALUE_BOUND
        counts[self.sizes[0] :] *= -1
        counts -= counts.mean(axis=0)
        n_people, d = counts.shape
        c = sum(1 / size for size in self.sizes)
        gram = counts @ counts.T / (n_people - 1)
        trace = float(np.trace(gram))
        squares = float(np.linalg.norm(gram)) ** 2 - trace**2 / (n_people - 1)  # unbiased for tr Σ²
        mean, deviation = c * trace, c * math.sqrt(2 * max(squares, 0.0))
        smallest = np.sort(np.abs(self.target))[: max(d - s, 0)]
        return {
            "chance": math.sqrt(mean / d),
            "largest_by_chance": math.sqrt((mean + 2 * deviation) / d),
            "sparse_floor": float(np.linalg.norm(smallest)) / math.sqrt(d),
        }


@dataclass(frozen=True, eq=False)
class TracedGroup:
    """A group of people whose mean is released: X (n, d), and the mean of a public panel, (d,)."""

    X: FloatArray
    panel_mean: FloatArray

    @property
    def panel_std(self) -> FloatArray:
        """Standard deviations of g at the panel's frequencies p, Hardy–Weinberg: √ 2p(1 − p), (d,)."""
        return np.asarray(np.sqrt((1 - self.panel_mean**2) / 2))


def choose_by_frequency(
    genotypes: Genotypes, n_snps: int, selection: Literal["all_subjects", "public_panel"]
) -> IntArray:
    """Return the SNPs with the highest minor-allele frequency, in ascending order; ties go to the first.

    Frequencies are those of both groups, or of the people outside them: half the mean count, or its
    complement. SNPs without enough calls are skipped.
    """
    outside = genotypes.group == NO_GROUP
    (frequency,), usable = _frequencies(genotypes, [outside if selection == "public_panel" else ~outside])
    return _largest(np.minimum(frequency, 1 - frequency), usable, n_snps)


def choose_by_ancestry(genotypes: Genotypes, n_snps: int) -> IntArray:
    """Return the SNPs whose frequency varies most among the populations outside both groups, ascending.

    The variance of the frequencies counts each population once. SNPs without enough calls are skipped.
    """
    outside, names = genotypes.group == NO_GROUP, np.array(genotypes.labels)
    populations = [outside & (names == name) for name in np.unique(names[outside])]
    frequencies, usable = _frequencies(genotypes, populations)
    return _largest(frequencies.var(axis=0), usable, n_snps)


def _frequencies(genotypes: Genotypes, groups: Sequence[Mask]) -> tuple[FloatArray, Mask]:
    """Return allele frequencies of groups of people, (groups, SNPs), and which SNPs all have enough calls."""
    present = genotypes.calls != MISSING
    counts = np.where(present, genotypes.calls, 0)
    n_people = np.array([each.sum() for each in groups])[:, None]
    if not n_people.any():
        raise DataError("this selection needs people outside both groups, here are none; choose another")
    n_alleles = np.array([counts[each].sum(axis=0, dtype=np.int64) for each in groups])
    n_called = np.array([present[each].sum(axis=0) for each in groups])
    usable: Mask = np.all((n_called > 0) & has_enough_calls(n_people - n_called, n_people), axis=0)
    return n_alleles / (2 * np.maximum(n_called, 1)), usable


def _largest(values: FloatArray, usable: Mask, n_snps: int) -> IntArray:
    """Return the places of the largest values among usable SNPs, ascending; ties go to the first."""
    require_size("n_snps", n_snps, int(usable.sum()), "the SNPs to choose from")
    return np.sort(np.argsort(-np.where(usable, values, -1.0), kind="stable")[:n_snps])


def choose_evenly(n_snps_stored: int, n_snps: int) -> IntArray:
    """Return SNPs at even distances in the file's order, without reading any call."""
    require_size("n_snps", n_snps, n_snps_stored, "the SNPs to choose from")
    return np.arange(n_snps, dtype=np.int64) * n_snps_stored // n_snps


def group_difference(genotypes: Genotypes) -> GroupDifference:
    """Code the calls of both groups; people without enough calls are dropped."""
    compared = genotypes.group != NO_GROUP
    eligible = has_enough_calls(genotypes.missing, genotypes.n_snps_stored)
    rows = [np.flatnonzero(compared & eligible & (genotypes.group == code)) for code in (0, 1)]
    for members, name in zip(rows, genotypes.group_names, strict=True):
        if not len(members):
            raise DataError(f"group {name!r} is empty; check the labels")
    calls = genotypes.calls[np.concatenate(rows)]
    absent = calls == MISSING
    if absent.all():
        raise DataError("every call of the people who are compared is missing; choose other SNPs or people")
    panel = np.flatnonzero(~compared & eligible)
    panel_calls = genotypes.calls[panel]
    sizes = (len(rows[0]), len(rows[1]))
    sign = np.repeat([1.0, -1.0], sizes)[:, None]
    centered = (np.where(absent, CENTER, calls) - CENTER).astype(np.float64)
    return GroupDifference(
        X=np.ascontiguousarray(VALUE_BOUND * sign * centered),
        sizes=sizes,
        target=centered[: sizes[0]].mean(axis=0) - centered[sizes[0] :].mean(axis=0),
        snps={str(name): each.tolist() for name, each in genotypes.snps.items()},
        panel=VALUE_BOUND * (np.where(panel_calls == MISSING, CENTER, panel_calls) - CENTER).astype(float),
        panel_labels=np.unique(np.array(genotypes.labels)[panel], return_inverse=True)[1],
    )


def draw_people(sizes: tuple[int, int], m: int, rngs: Sequence[np.random.Generator]) -> IntArray:
    """Draw m people of each group per replicate, without replacement: rows of `GroupDifference.X`, (2, m, R).

    They are in the random order of the draw. Replicate r depends on ``rngs[r]`` only. Its draw of m people is
    the beginning of a draw of any larger m from a generator in the same state.
    """
    require_size("m", m, min(sizes), "the people of the smaller group")
    drawn = np.empty((2, m, len(rngs)), dtype=np.int64)
    for r, rng in enumerate(rngs):
        # Whole permutations for any m: smaller draws are then the beginnings of larger ones.
        drawn[0, :, r] = rng.permutation(sizes[0])[:m]
        drawn[1, :, r] = sizes[0] + rng.permutation(sizes[1])[:m]
    return drawn


def person_mask(drawn: IntArray, n_rows: int) -> Mask:
    """Return which rows of `GroupDifference.X` each replicate uses: 2m of them, one per person.

    The mean of the rows is the difference of the drawn group means; its sensitivity to one person is 2/m
    per coordinate (see the module). The mask is (n_rows, R) and Fortran-ordered, as estimators take it.
    """
    mask = np.zeros((drawn.shape[2], n_rows), dtype=bool)
    np.put_along_axis(mask, np.concatenate(drawn).T, True, axis=1)
    return mask.T


def paired_rows(X: FloatArray, drawn: IntArray, replicate: int) -> FloatArray:
    """Return the paper's rows of one replicate, (m, d): x1 − x2 for pairs in the order of the draw.

    Their mean is that of the 2m rows of the same replicate. With ``value_bound=2`` and m rows an estimator
    takes 4/m for its sensitivity, twice what a person can do.
    """
    return (X[drawn[0, :, replicate]] + X[drawn[1, :, replicate]]) / VALUE_BOUND


def traced_group(genotypes: Genotypes) -> TracedGroup:
    """Code the calls of a dataset's first group, and the mean of the people outside its groups."""
    group, others = (genotypes.calls[genotypes.group == code] for code in (0, NO_GROUP))
    for calls, who in ((group, f"in the group {genotypes.group_names[0]!r}"), (others, "outside the groups")):
        if not len(calls):
            raise DataError(f"tracing needs people {who}, found nobody; choose another dataset")
    rows, panel = (np.where(calls == MISSING, 0, calls - 1).astype(np.float64) for calls in (group, others))
    return TracedGroup(X=rows, panel_mean=panel.mean(axis=0))


def draw_roles(n_people: int, n: int, rngs: Sequence[np.random.Generator]) -> tuple[Mask, Mask, Mask]:
    """Draw n members and n non-members per replicate; return them and the remaining people, (n_people, R)."""
    require_size("n", n, (n_people - 1) // 2, "below half of the people of the group")
    place = np.array([rng.permutation(n_people) for rng in rngs]).T
    return place < n, (place >= n) & (place < 2 * n), place >= 2 * n
