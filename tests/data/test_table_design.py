from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.datasets import get_dataset, housing
from data.prepare.table_design import draw_rows, prepare_table, read_prepared_table, table_bytes

RESPONSE = "median_house_value"
COVARIATES = ["median_income", "housing_median_age", "population", "households", "total_rooms"]


@pytest.fixture(scope="session")
def table(published, tmp_path_factory):
    file: Path = tmp_path_factory.mktemp("raw") / "cal_housing.tgz"
    file.write_bytes(published.tgz)
    return housing.parse_cal_housing_tgz(file).astype(float)


def build(table, units="public", **changes):
    arguments = {"response": RESPONSE, "covariates": COVARIATES, "units": units, **changes}
    return prepare_table(table, get_dataset("housing"), **arguments)


def test_public_units_are_the_registrys_and_those_of_the_paper_z_scores_of_the_full_data(table):
    public, paper = build(table), build(table, "standardised")
    assert public.column_names == (*COVARIATES, "intercept")
    assert paper.column_names == tuple(COVARIATES)
    assert public.X.flags.c_contiguous
    assert paper.X.flags.c_contiguous
    np.testing.assert_array_equal(public.X[:, -1], 1)
    np.testing.assert_allclose(public.X[:, 0], (table["median_income"] - 4) / 2)
    np.testing.assert_allclose(public.y, (table[RESPONSE] - 200_000) / 100_000)
    np.testing.assert_allclose(paper.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(paper.X.std(axis=0), 1)
    np.testing.assert_allclose((paper.y.mean(), paper.y.std()), (0, 1), atol=1e-12)
    # Both have the target of least squares on the raw rows.
    with_ones = np.column_stack([table[COVARIATES], np.ones(len(table))])
    slopes = np.linalg.lstsq(with_ones, table[RESPONSE].to_numpy(), rcond=None)[0][:-1]
    in_z = slopes * table[COVARIATES].std(ddof=0).to_numpy() / table[RESPONSE].std(ddof=0)
    for prepared in (public, paper):
        found = prepared.to_standard @ np.linalg.lstsq(prepared.X, prepared.y, rcond=None)[0]
        np.testing.assert_allclose(found, in_z, rtol=0, atol=1e-9)


@given(st.integers(1, 60), st.data(), st.integers(0, 2**32 - 1))
def test_draws_are_distinct_deterministic_and_independent_of_their_neighbors(n_rows, data, seed):
    m = data.draw(st.integers(1, n_rows))
    rows = draw_rows(n_rows, m, np.random.default_rng(seed).spawn(3))
    assert rows.shape == (n_rows, 3)
    assert rows.dtype == bool
    np.testing.assert_array_equal(rows.sum(axis=0), m)
    np.testing.assert_array_equal(rows, draw_rows(n_rows, m, np.random.default_rng(seed).spawn(3)))
    last = np.random.default_rng(seed).spawn(3)[2:]
    np.testing.assert_array_equal(rows[:, 2:], draw_rows(n_rows, m, last))


@pytest.mark.parametrize("m", [3, 10, 11, 17])
def test_draws_are_uniform_over_rows_and_pairs(m):
    n_rows, replicates = 20, 4000
    rows = draw_rows(n_rows, m, np.random.default_rng(5).spawn(replicates)).astype(float)
    p, pair = m / n_rows, m * (m - 1) / (n_rows * (n_rows - 1))
    together = rows @ rows.T / replicates
    single = np.diag(together)
    assert np.abs(single - p).max() < 4.5 * np.sqrt(p * (1 - p) / replicates)
    off = together[~np.eye(n_rows, dtype=bool)]
    assert np.abs(off - pair).max() < 4.5 * np.sqrt(pair * (1 - pair) / replicates)


def test_a_mean_has_no_response_and_counts_stay_counts(table, tmp_path):
    mean = build(table, response="")
    assert mean.y is None
    assert mean.column_names == tuple(COVARIATES)
    rows = table[COVARIATES]
    found = mean.to_standard @ (mean.X.mean(axis=0) - mean.X[0])
    np.testing.assert_allclose(found, (rows.mean() - rows.iloc[0]) / rows.std(ddof=0), atol=1e-9)
    counts = build(table, response="households", covariates=["median_income"], raw_response=True)
    np.testing.assert_array_equal(counts.y, table["households"])
    np.testing.assert_allclose(counts.to_standard, [[table["median_income"].std(ddof=0) / 2, 0]])
    for prepared in (mean, counts):
        (tmp_path / "x.parquet").write_bytes(table_bytes(prepared))
        read = read_prepared_table(tmp_path / "x.parquet")
        np.testing.assert_array_equal(read.X, prepared.X)
        np.testing.assert_array_equal(read.to_standard, prepared.to_standard)
        assert (read.y is None) == (prepared.y is None)
        assert read.column_names == prepared.column_names
