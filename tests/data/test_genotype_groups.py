from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.datasets import get_dataset
from data.errors import DataError, Unreachable
from data.fetch.genotypes import NO_GROUP, SNP_COLUMNS, Genotypes, read_genotypes
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch
from data.formats.cohort import MISSING
from data.prepare import genotype_groups as prepare
from data.store.folders import mirror_from_environment


def cohort(calls, group, missing=None):
    calls, group = np.asarray(calls, dtype=np.int8), np.asarray(group, dtype=np.int8)
    about = {"n_snps_stored": calls.shape[1], "group_names": ("cases", "controls")}
    about["missing"] = (calls == MISSING).sum(axis=1) if missing is None else np.asarray(missing)
    about["labels"] = tuple(("case", "control", "other")[code] for code in group)
    snps = pd.DataFrame({name: range(calls.shape[1]) for name in SNP_COLUMNS})
    return Genotypes(calls=calls, group=group, snps=snps, **about)


def random_cohort(sizes=(30, 20), d=6, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    calls = rng.integers(0, 3, (sum(sizes), d))
    calls[rng.random(calls.shape) < missing] = MISSING
    return cohort(calls, rng.permutation(np.repeat([0, 1], sizes)))


@pytest.mark.parametrize("sizes", [(25, 25), (31, 12)])
def test_the_rows_are_centered_calls_and_their_mean_is_the_difference_of_group_means(sizes):
    genotypes = random_cohort(sizes=sizes)
    prepared = prepare.group_difference(genotypes)
    groups = [genotypes.calls[genotypes.group == code] for code in (0, 1)]
    np.testing.assert_allclose(prepared.target, groups[0].mean(axis=0) - groups[1].mean(axis=0))
    assert prepared.sizes == sizes
    np.testing.assert_array_equal(prepared.X[: sizes[0]], prepare.VALUE_BOUND * (groups[0] - 1.0))
    np.testing.assert_array_equal(prepared.X[sizes[0] :], -prepare.VALUE_BOUND * (groups[1] - 1.0))
    assert prepared.X.flags.c_contiguous
    if sizes[0] == sizes[1]:
        np.testing.assert_allclose(prepared.X.mean(axis=0), prepared.target)


def test_missing_calls_are_the_center():
    few = np.zeros(4, dtype=int)  # of all SNPs, of which these are a choice
    calls = [[2, MISSING], [0, 1], [MISSING, MISSING], [2, 2]]
    prepared = prepare.group_difference(cohort(calls, [0, 0, 1, 1], few))
    np.testing.assert_array_equal(prepared.X, [[2, 0], [-2, 0], [0, 0], [-2, -2]])


def test_people_with_too_many_missing_calls_are_left_out():
    genotypes = cohort(np.ones((5, 6)), [0, 0, 1, 1, NO_GROUP], missing=[1, 0, 3, 0, 6])
    assert prepare.group_difference(replace(genotypes, n_snps_stored=12)).sizes == (2, 1)


def chosen(genotypes, n_snps, selection="all_subjects"):
    return prepare.choose_by_frequency(genotypes, n_snps, selection).tolist()


def test_the_snps_with_the_most_frequent_rarer_allele_are_chosen_and_ties_go_to_the_first():
    # Among 20 calls 10, 2 (as rare as 38), 0, 16 and 2; the last SNP lacks an eighth of its calls.
    calls = np.zeros((20, 6), dtype=np.int8)
    calls[:10, 0] = calls[:2, 4] = 1
    calls[:, 1] = [2] * 18 + [1] * 2
    calls[:8, 3] = 2
    calls[:, 5] = [1] * 17 + [MISSING] * 3
    genotypes = cohort(calls, [0, 1] * 10)
    for n_snps, expected in ((1, [3]), (2, [0, 3]), (3, [0, 1, 3]), (4, [0, 1, 3, 4])):
        assert chosen(genotypes, n_snps) == expected
    with pytest.raises(DataError, match="between 1 and 5, the SNPs"):
        chosen(genotypes, 6)


def test_a_public_choice_does_not_depend_on_the_people_who_are_compared():
    group = np.array([0, 1] * 20 + [NO_GROUP] * 40)
    rng = np.random.default_rng(2)
    calls = rng.integers(0, 3, (80, 30))
    other = calls.copy()
    other[:40] = rng.integers(0, 3, (40, 30))
    assert chosen(cohort(calls, group), 7, "public_panel") == chosen(cohort(other, group), 7, "public_panel")
    assert chosen(cohort(calls, group), 7) != chosen(cohort(other, group), 7)


@given(st.integers(1, 40), st.integers(1, 40), st.data(), st.integers(0, 2**32 - 1))
def test_draws_are_distinct_and_smaller_ones_begin_the_larger(n_first, n_second, data, seed):
    m = data.draw(st.integers(1, min(n_first, n_second)))
    sizes = (n_first, n_second)
    draw = prepare.draw_people(sizes, m, np.random.default_rng(seed).spawn(3))
    assert draw.shape == (2, m, 3)
    mask = prepare.person_mask(draw, sum(sizes))
    np.testing.assert_array_equal(mask[:n_first].sum(axis=0), m)
    np.testing.assert_array_equal(mask[n_first:].sum(axis=0), m)
    smaller = prepare.draw_people(sizes, 1, np.random.default_rng(seed).spawn(3))
    np.testing.assert_array_equal(smaller, draw[:, :1])


def test_a_person_moves_the_answer_by_two_over_m_never_more():
    """E13: 2m rows in ±2 have the sensitivity 2·2/(2m), a person's own; for m pairs 2·2/m is twice that."""
    m, rng = 7, np.random.default_rng(0)
    group = np.repeat([0, 1], m)
    calls = rng.integers(0, 3, (2 * m, 6))

    claimed = 2 * prepare.VALUE_BOUND / (2 * m)
    assert claimed == pytest.approx(2 / m)
    for person in (0, m):
        low, high = calls.copy(), calls.copy()
        low[person], high[person] = 0, 2
        for one, other in zip(answers_of(low, group), answers_of(high, group), strict=True):
            np.testing.assert_allclose(np.abs(one - other), claimed)
    for _ in range(300):
        one, other = calls.copy(), calls.copy()
        other[rng.integers(2 * m)] = rng.integers(MISSING, 3, 6)
        first, second = (np.array(answers_of(each, group)) for each in (one, other))
        assert np.abs(first - second).max() <= claimed + 1e-12


def answers_of(calls, group):
    prepared = prepare.group_difference(cohort(calls, group, missing=np.zeros(len(calls), dtype=int)))
    draw = prepare.draw_people(prepared.sizes, len(group) // 2, [np.random.default_rng(9)])
    chosen = prepared.X[prepare.person_mask(draw, len(group))[:, 0]]
    return [chosen.mean(axis=0), prepare.paired_rows(prepared.X, draw, 0).mean(axis=0)]


# Published files: people compared, missing calls, people without a group, SNPs that are chosen, error of zero
PUBLISHED = [
    ("snp_hapmap3", (191, 247), 20_548, 519, "public_panel", 16.04),
    ("snp_hapmap3", (191, 247), 20_548, 519, "all_subjects", 16.09),
    ("snp_penncath", (933, 468), 143_662, 0, "all_subjects", 1.665),
]


@pytest.mark.parametrize(("name", "sizes", "missing", "others", "selection", "zero_error"), PUBLISHED)
def test_published_files_are_what_is_known(tmp_path, name, sizes, missing, others, selection, zero_error):
    dataset = get_dataset(name)
    try:
        raw = fetch(dataset, home=tmp_path, mirror=mirror_from_environment(), offline=True)
    except Unreachable:
        pytest.skip("neither the package nor the mirror has its files")
    ref = to_parquet(dataset, raw, home=tmp_path)
    genotypes = read_genotypes(ref)
    snps = prepare.choose_by_frequency(genotypes, 2_000, selection)
    prepared = prepare.group_difference(genotypes.at(snps))
    assert prepared.sizes == ref.group_sizes == sizes
    assert (genotypes.calls == MISSING).sum() == ref.missing_calls == missing
    assert (genotypes.group == NO_GROUP).sum() == others
    assert (ref.data_source, ref.rows_read) == ("real", dataset.n_rows)
    assert not any(each.done == "left out" for each in ref.repairs)
    if name == "snp_hapmap3":
        joined = 1, "joined by the individual identifier alone"
        assert [(each.count, each.done) for each in ref.repairs] == [(344, "passed over"), joined]
    assert np.linalg.norm(prepared.target) == pytest.approx(zero_error, abs=0.005)


CALLS = np.array([[0, 1, 2], [2, MISSING, 0], [1, 1, 1], [2, 2, 0], [2, 0, MISSING]])


def test_a_traced_group_is_centered_and_the_panel_is_who_is_in_neither():
    groups = [0, 0, 1, NO_GROUP, NO_GROUP]
    compared = prepare.group_difference(cohort(CALLS, groups, missing=[0] * 5))
    np.testing.assert_array_equal(compared.panel, 2 * (np.where(CALLS[3:] == MISSING, 1, CALLS[3:]) - 1.0))
    assert compared.panel_labels.tolist() == [0, 0]
    assert prepare.group_difference(random_cohort()).public_rows is None
    group = prepare.traced_group(cohort(CALLS, groups))
    assert group.X.tolist() == [[-1, 0, 1], [1, 0, -1]]
    assert group.panel_mean.tolist() == [1.0, 0.0, -0.5]
    assert group.panel_std == pytest.approx([0.0, np.sqrt(0.5), np.sqrt(0.375)])


def test_snps_of_ancestry_vary_most_among_the_populations_that_are_not_compared():
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1, NO_GROUP, NO_GROUP], 20)
    calls = rng.integers(0, 3, (80, 9)).astype(np.int8)
    calls[40:60, [2, 7]], calls[60:, [2, 7]] = 0, 2  # of two populations
    labels = ("a",) * 40 + ("b",) * 20 + ("c",) * 20
    genotypes = replace(cohort(calls, group), labels=labels)
    assert prepare.choose_by_ancestry(genotypes, 2).tolist() == [2, 7]
    changed = calls.copy()
    changed[:40] = 2 - changed[:40]
    others = replace(genotypes, calls=changed)
    assert prepare.choose_by_ancestry(others, 4).tolist() == prepare.choose_by_ancestry(genotypes, 4).tolist()
    with pytest.raises(DataError, match="selection"):
        prepare.choose_by_ancestry(replace(genotypes, group=np.zeros(80, dtype=np.int8)), 2)


def test_the_limits_are_the_difference_of_random_groups_and_the_smallest_sparse_error():
    prepared = prepare.group_difference(random_cohort(sizes=(40, 25), d=30))
    limits = prepared.limits(4)
    counts = prepared.X / 2
    counts[40:] *= -1
    rng, lengths = np.random.default_rng(0), []
    for _ in range(4000):
        order = rng.permutation(65)
        difference = counts[order[:40]].mean(axis=0) - counts[order[40:]].mean(axis=0)
        lengths.append((difference**2).mean())
    assert limits["chance"] ** 2 == pytest.approx(np.mean(lengths), rel=0.02)
    spread = limits["largest_by_chance"] ** 2 - limits["chance"] ** 2
    assert spread == pytest.approx(2 * np.std(lengths), rel=0.1)
    sparse = np.where(np.abs(prepared.target) >= np.sort(np.abs(prepared.target))[-4], prepared.target, 0)
    assert limits["sparse_floor"] == pytest.approx(np.sqrt(np.mean((sparse - prepared.target) ** 2)))
    assert prepared.limits(30)["sparse_floor"] == prepared.limits(31)["sparse_floor"] == 0
