"""Prepare the SNP study: choose SNPs, code calls, and write a difference of group means as a mean of rows.

The unit of privacy is a person (digest E13). With g the number of copies of an allele (0, 1 or 2) and m
people drawn from each group, the estimand's estimate

    (1/m) Σ_first g − (1/m) Σ_second g  =  (1/2m) Σ_people ±2(g − 1)

is a mean of 2m rows in [−2, 2], one per person. Replacing one row moves a coordinate by at most
2·2/(2m) = 2/m: just what `dp_sparse_mean` with ``value_bound=2`` takes for 2m rows. The paper's m rows
x1 − x2, also in [−2, 2], cost 2·2/m = 4/m, since a pair is its unit; the mean is the same. Both need the
groups and their sizes to be public.

Missing calls are replaced by 1, the public center, so that they pull a difference towards zero; they are
counted. Whoever has more than a public share of calls missing is left out, a rule on each person's own
record. All else that looks at the data (which SNPs vary most, which allele is the rarer) is flagged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from data.errors import DataError
from data.fetch.genotypes import NO_GROUP, Genotypes
from data.formats.cohort import MISSING, SnpBlock
from data.store.references import Repair

Selection = Literal["all_subjects", "public_panel", "evenly_spaced"]
Orientation = Literal["as_coded", "minor"]

VALUE_BOUND = 2.0
CENTER = 1

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_SELECTION_NOTES = {
    "all_subjects": (
        "The SNPs were chosen by their minor-allele frequency among the people who are compared, as in the "
        "paper; this step is not private and no guarantee covers it."
    ),
    "public_panel": (
        "The SNPs were chosen by their minor-allele frequency among people outside both groups, who are "
        "taken as public, so the privacy guarantee covers this choice as well."
    ),
    "evenly_spaced": (
        "The SNPs were taken at even distances from the public list of SNPs, without a look at anybody's "
        "calls, so the privacy guarantee covers this choice as well."
    ),
}
_ORIENTATION_NOTES = {
    "as_coded": "Counted are copies of the allele that the file names first.",
    "minor": (
        "Counted are copies of the allele that is rarer among the people who are compared; this step is not "
        "private. It changes signs alone, never an ℓ2 error."
    ),
}


@dataclass(frozen=True, eq=False)
class AlleleCounts:
    """Counts per SNP among some people.

    Attributes
    ----------
    alleles : (n_snps,) int array
        Copies of ``allele_1``.
    called : (n_snps,) int array
        People with a call.
    n_people : int
    """

    alleles: IntArray
    called: IntArray
    n_people: int

    @property
    def frequency(self) -> FloatArray:
        """Frequency of ``allele_1`` among the calls: half the mean count (F11); NaN without a call."""
        frequency = np.full(len(self.called), np.nan)
        np.divide(self.alleles, 2 * self.called, out=frequency, where=self.called > 0)
        return frequency

    @property
    def minor_allele_frequency(self) -> FloatArray:
        """Frequency of the rarer allele; NaN without a call."""
        return np.minimum(self.frequency, 1 - self.frequency)


@dataclass(frozen=True, eq=False)
class SnpChoice:
    """Which SNPs are studied.

    Attributes
    ----------
    index : (n_chosen,) int array
        Positions in the dataset, ascending.
    private : bool
        Whether a guarantee on the estimate covers this choice too.
    note : str
        For the report.
    passed_over : tuple of Repair
        SNPs that could not be chosen and why.
    """

    index: IntArray
    private: bool
    note: str
    passed_over: tuple[Repair, ...] = ()


@dataclass(frozen=True, eq=False)
class GroupDifference:
    """Two groups of people at the chosen SNPs, as rows whose mean is the difference of group means.

    Attributes
    ----------
    X : (n, d) array
        ±2(g − 1), + for the first group, whose people come first; C-contiguous, entries in [−2, 2].
    sizes : tuple of int
        People of each group; they add up to n.
    target : (d,) array
        Mean of the first group less mean of the second, of everybody.
    snps : (d, 5) pandas.DataFrame
        Name, chromosome, position and alleles of each coordinate.
    group_names : tuple of str
    missing_per_snp : (d,) int array
    missing_per_person : (n,) int array
        Replaced calls, among the d chosen SNPs.
    left_out : tuple of Repair
        People and SNPs that were left out and why.
    private : bool
        Whether a guarantee on an estimate from `X` covers this preparation too.
    notes : tuple of str
        Sentences for the report.
    """

    X: FloatArray
    sizes: tuple[int, int]
    target: FloatArray
    snps: pd.DataFrame
    group_names: tuple[str, ...]
    missing_per_snp: IntArray
    missing_per_person: IntArray
    left_out: tuple[Repair, ...]
    private: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DrawnPeople:
    """People drawn from the two groups in each of R replicates.

    Attributes
    ----------
    first, second : (m, R) int arrays
        Rows of `GroupDifference.X`, in the random order in which they were drawn.
    """

    first: IntArray
    second: IntArray


def count_alleles(blocks: Iterable[SnpBlock], among: npt.NDArray[np.bool_]) -> AlleleCounts:
    """Count alleles and calls per SNP.

    Parameters
    ----------
    blocks : iterable of SnpBlock
        From `data.fetch.genotypes.stream_blocks`; memory stays that of one block.
    among : (n_people,) boolean array
        Whose calls to count.

    Raises
    ------
    DataError
        There is nobody to count, or no call at all.
    """
    n_people = int(among.sum())
    if not n_people:
        raise DataError("nobody is left to count alleles among; check the groups and the labels")
    alleles, called = [], []
    for block in blocks:
        calls = block.calls[:, among]
        present = calls != MISSING
        called.append(present.sum(axis=1))
        alleles.append(np.where(present, calls, 0).sum(axis=1, dtype=np.int64))
    counts = AlleleCounts(np.concatenate(alleles), np.concatenate(called), n_people)
    if not counts.called.any():
        raise DataError(f"every call of these {n_people:,} people is missing; choose other people or data")
    return counts


def people_by_frequency_rule(
    group: npt.NDArray[np.int8], selection: Literal["all_subjects", "public_panel"]
) -> npt.NDArray[np.bool_]:
    """Return whose frequencies decide: both groups, or the people outside them.

    Raises
    ------
    DataError
        There are no people outside the groups.
    """
    among = group == NO_GROUP if selection == "public_panel" else group != NO_GROUP
    if not among.any():
        raise DataError(
            "selection='public_panel' needs people outside both groups, here are none; "
            "pass selection='evenly_spaced'"
        )
    return np.asarray(among)


def choose_by_frequency(
    counts: AlleleCounts,
    n_snps: int,
    *,
    selection: Literal["all_subjects", "public_panel"],
    max_missing: float = 0.1,
) -> SnpChoice:
    """Choose the SNPs of highest minor-allele frequency; of equals, those that come first in the file.

    Parameters
    ----------
    counts : AlleleCounts
        Among the people of `people_by_frequency_rule`.
    n_snps : int
    selection : {"all_subjects", "public_panel"}
        ``"all_subjects"`` is the paper's choice, which is not private.
    max_missing : float, default 0.1
        SNPs with a larger share of calls missing among those people are passed over; PLINK's own
        default of ``--geno``.

    Raises
    ------
    DataError
        There are fewer SNPs than asked for.
    """
    _check_share("max_missing", max_missing)
    usable = (counts.called > 0) & (counts.n_people - counts.called <= max_missing * counts.n_people)
    _check_number(n_snps, int(usable.sum()))
    frequency = np.where(usable, counts.minor_allele_frequency, -1.0)
    index = np.sort(np.argsort(-frequency, kind="stable")[:n_snps])
    rejected = int((~usable).sum())
    reason = f"SNP with more than {max_missing:.0%} of its calls missing"
    return SnpChoice(
        index=index,
        private=selection != "all_subjects",
        note=_SELECTION_NOTES[selection],
        passed_over=(Repair(reason, rejected),) if rejected else (),
    )


def choose_evenly(n_snps_stored: int, n_snps: int) -> SnpChoice:
    """Choose SNPs at even distances in the file's order, without a look at any call.

    Raises
    ------
    DataError
        There are fewer SNPs than asked for.
    """
    _check_number(n_snps, n_snps_stored)
    index = np.arange(n_snps, dtype=np.int64) * n_snps_stored // n_snps
    return SnpChoice(index=index, private=True, note=_SELECTION_NOTES["evenly_spaced"])


def group_difference(
    genotypes: Genotypes,
    choice: SnpChoice,
    *,
    orientation: Orientation = "as_coded",
    max_missing: float = 0.1,
) -> GroupDifference:
    """Code the calls of both groups at the chosen SNPs.

    Parameters
    ----------
    genotypes : Genotypes
        Read with ``snps=choice.index``.
    choice : SnpChoice
    orientation : {"as_coded", "minor"}
        ``"as_coded"``: copies of the file's first allele, a public rule. ``"minor"``: of the rarer allele
        among the people who are compared (of equals, the first), as in the paper; not private.
    max_missing : float, default 0.1
        People with a larger share of calls missing, among all SNPs of the dataset, are left out; PLINK's
        own default of ``--mind``.

    Returns
    -------
    GroupDifference

    Raises
    ------
    DataError
        A setting is unknown, the genotypes are not those of the choice, a group has nobody left, or every
        call is missing.
    """
    if orientation not in get_args(Orientation):
        raise DataError(
            f"orientation must be one of {', '.join(get_args(Orientation))}, got {orientation!r}; pick one"
        )
    _check_share("max_missing", max_missing)
    if genotypes.calls.shape[1] != len(choice.index):
        raise DataError(
            f"the genotypes hold {genotypes.calls.shape[1]:,} SNPs, {len(choice.index):,} are chosen; "
            "read them with snps=choice.index"
        )
    eligible = genotypes.missing <= max_missing * genotypes.n_snps_stored
    compared = genotypes.group != NO_GROUP
    rows = [np.flatnonzero(compared & eligible & (genotypes.group == code)) for code in (0, 1)]
    for members, name in zip(rows, genotypes.group_names, strict=True):
        if not len(members):
            raise DataError(f"group {name!r} has nobody left, both groups need people; check the labels")
    calls = genotypes.calls[np.concatenate(rows)]
    absent = calls == MISSING
    if absent.all():
        raise DataError("every call of the people who are compared is missing; choose other SNPs or people")

    counted = np.where(absent, CENTER, calls)
    if orientation == "minor":
        flipped = np.where(absent, 0, calls).sum(axis=0, dtype=np.int64) > (~absent).sum(axis=0)
        counted = np.where(flipped, 2 - counted, counted)
    sizes = (len(rows[0]), len(rows[1]))
    sign = np.repeat([1.0, -1.0], sizes)[:, None]
    centered = (counted - CENTER).astype(np.float64)
    left_out = choice.passed_over
    if ineligible := int((compared & ~eligible).sum()):
        left_out = (*left_out, Repair(f"person with more than {max_missing:.0%} calls missing", ineligible))
    n_absent = int(absent.sum())
    return GroupDifference(
        X=np.ascontiguousarray(VALUE_BOUND * sign * centered),
        sizes=sizes,
        target=centered[: sizes[0]].mean(axis=0) - centered[sizes[0] :].mean(axis=0),
        snps=genotypes.snps,
        group_names=genotypes.group_names,
        missing_per_snp=absent.sum(axis=0),
        missing_per_person=absent.sum(axis=1),
        left_out=left_out,
        private=choice.private and orientation == "as_coded",
        notes=(
            choice.note,
            _ORIENTATION_NOTES[orientation],
            f"{n_absent:,} of {absent.size:,} calls ({n_absent / absent.size:.2%}) were missing and were "
            "replaced by 1, the public center.",
        ),
    )


def draw_people(sizes: tuple[int, int], m: int, rngs: Sequence[np.random.Generator]) -> DrawnPeople:
    """Draw m people of each group per replicate, uniformly and without replacement.

    Replicate r depends on ``rngs[r]`` alone, and its draw of m people begins that of any larger m from a
    generator in the same state.

    Parameters
    ----------
    sizes : tuple of int
        People of each group.
    m : int
        People drawn of each.
    rngs : sequence of numpy.random.Generator
        One per replicate.

    Raises
    ------
    DataError
        m is not between 1 and the smaller group's size.
    """
    if not 1 <= m <= min(sizes):
        raise DataError(
            f"m must be between 1 and the {min(sizes):,} people of the smaller group, got {m}; "
            "choose another size"
        )
    first, second = [], []
    for rng in rngs:
        # Whole permutations, whatever m is: that makes smaller draws the beginnings of larger ones.
        first.append(rng.permutation(sizes[0])[:m])
        second.append(sizes[0] + rng.permutation(sizes[1])[:m])
    return DrawnPeople(np.array(first).reshape(-1, m).T, np.array(second).reshape(-1, m).T)


def person_mask(draw: DrawnPeople, n_rows: int) -> npt.NDArray[np.bool_]:
    """Return which rows of `GroupDifference.X` each replicate uses: 2m of them, one per person.

    The mean of the rows is the difference of the drawn group means; its sensitivity to one person is 2/m
    per coordinate (see the module).

    Returns
    -------
    (n_rows, R) boolean array
        Fortran-ordered, the ``row_mask`` of an estimator.
    """
    mask = np.zeros((draw.first.shape[1], n_rows), dtype=bool)
    for row, first, second in zip(mask, draw.first.T, draw.second.T, strict=True):
        row[first] = True
        row[second] = True
    return mask.T


def paired_rows(X: FloatArray, draw: DrawnPeople, replicate: int) -> FloatArray:
    """Return the paper's rows of one replicate: x1 − x2 for pairs in the order of the draw.

    Their mean is that of the 2m rows of the same replicate. With ``value_bound=2`` and m rows an estimator
    takes 4/m for its sensitivity, twice what a person can do.

    Parameters
    ----------
    X : (n, d) array
        `GroupDifference.X`.
    draw : DrawnPeople
    replicate : int

    Returns
    -------
    (m, d) array
        Entries in [−2, 2].
    """
    return (X[draw.first[:, replicate]] + X[draw.second[:, replicate]]) / VALUE_BOUND


def _check_number(n_snps: int, available: int) -> None:
    if not 1 <= n_snps <= available:
        raise DataError(
            f"n_snps must be between 1 and the {available:,} SNPs there are to choose from, got {n_snps:,}; "
            "ask for fewer"
        )


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise DataError(f"{name} must be a share between 0 and 1, got {value}; pass e.g. {name}=0.1")
