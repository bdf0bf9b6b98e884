"""Swarm: the official zip and its frames; designs of tables; simulated flocks, models and priors."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.datasets import get_dataset, housing
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.prepare.frame_features import CLIP, Scales, load_frames, scales, stream_frames
from data.prepare.table_design import PreparedTable, design_bytes, draw_rows, prepare_table, read_design
from data.simulations import simulator
from data.simulations.paper_models import uniform_glm
from data.store.references import Repair, ref_from_dict
from tests.data.conftest import raw_of

N = 100
LABELS = {"Flocking": "Class", "Aligned": "Class", "Grouped": "Class"}


def made(n, seed=0, n_boids=200):
    """Values with two decimals within the public bounds, sorted by x1, and labels."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, (n, n_boids, 12)).round(2)
    values[:, :, 10:] = rng.integers(0, 199, (n, n_boids, 2))
    values = values.reshape(n, -1)
    return values[np.argsort(values[:, 0])], rng.integers(0, 2, n)


def lines_of(dataset, values, labels):
    """The published text: blanks around names, the last row without its x1."""
    header = " ,".join([*dataset.frame_columns, f" {dataset.label} "])
    pairs = zip(values, labels, strict=True)
    rows = [",".join([*(f"{v:g}" for v in row), str(label)]) for row, label in pairs]
    rows[-1] = rows[-1][rows[-1].index(",") :]
    return [header, *rows]


def zipped(texts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(f"Swarm Behavior Data/{name}.csv", text)
    return buffer.getvalue()


def test_the_official_zip_through_a_web_server(tmp_path, web):
    dataset = replace(get_dataset("swarm"), n_rows=N, n_boids=3)
    values, labels = made(N, n_boids=3)
    texts = {name: "\n".join(lines_of(dataset, values, (labels + i) % 2)) for i, name in enumerate(LABELS)}
    official = "/static/public/524/swarm+behaviour.zip"
    web.serve(official, zipped(texts))
    url = dataset.source.url.replace("https://archive.ics.uci.edu", web.address)
    dataset = replace(dataset, source=replace(dataset.source, url=url))
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    ref = to_parquet(dataset, raw, home=tmp_path)
    assert ref_from_dict(ref.to_dict()) == ref
    assert (ref.rows_read, ref.n_rows, ref.data_source) == (N, N - 1, "real")
    assert ref.repairs == (Repair("no number in column x1", 1),)
    X, y = (np.concatenate(each, axis=-1).T for each in zip(*stream_frames(ref), strict=True))
    np.testing.assert_array_equal(X, values[:-1].astype(np.float32))
    np.testing.assert_array_equal(y, labels[:-1])
    assert ref.label_counts == (int((y == 0).sum()), int((y == 1).sum()))
    assert web.asked == [official]


def last_x1(text):
    return lambda lines: [*lines[:-1], text + lines[-1]]


def plain_header(lines):
    return [lines[0].replace(" ", ""), *lines[1:]]


# Ways in which others say that they found the file: every one has one row without a number.
VARIANTS = {
    "padded header": lambda lines: lines,
    "plain header": plain_header,
    "CRLF": lambda lines: [line + "\r" for line in lines],
    "labels are floating-point": lambda lines: [lines[0], *(line + ".0" for line in lines[1:])],
    "empty": last_x1(""),
    "NaN": last_x1("NaN"),
    "blank": last_x1(" "),
    "question mark": last_x1("?"),
    "trailing blanks": lambda lines: [lines[0], *(line.replace(",", " ,") + " " for line in lines[1:])],
    "two points": last_x1("1407.1."),
    "all": lambda lines: [
        plain_header(lines)[0],
        *(f"{line}.0 \r" for line in last_x1("1407.1.")(lines)[1:]),
    ],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cell_that_is_no_number_costs_its_row_only(tmp_path, variant):
    dataset = replace(get_dataset("swarm"), n_rows=N, n_boids=3)
    values, labels = made(N, n_boids=3)
    payload = zipped({"Flocking": "\n".join(VARIANTS[variant](lines_of(dataset, values, labels)))})
    ref = to_parquet(dataset, raw_of(tmp_path, dataset, payload), home=tmp_path)
    assert (ref.rows_read, ref.n_rows, ref.repairs) == (N, N - 1, (Repair("no number in column x1", 1),))
    X, y = (np.concatenate(each, axis=-1).T for each in zip(*stream_frames(ref), strict=True))
    np.testing.assert_array_equal(X, values[:-1].astype(np.float32))
    np.testing.assert_array_equal(y, labels[:-1])


N_FRAMES = 320


@pytest.fixture(scope="module")
def swarm(tmp_path_factory):
    dataset = replace(get_dataset("swarm"), n_rows=N_FRAMES)
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    ref = to_parquet(dataset, raw, home=tmp_path_factory.mktemp("home"))
    return dataset, ref


def values_of(ref):
    return np.hstack([block for block, _ in stream_frames(ref)]).T.astype(np.float64)


def test_public_scales_are_those_of_the_registry(swarm, tmp_path):
    dataset, ref = swarm
    found = scales(ref, dataset, "public")
    (tmp_path / "x.npz").write_bytes(design_bytes(found))
    assert read_design(tmp_path / "x.npz", Scales) == found
    frames = load_frames(found)
    assert frames.X.shape == (N_FRAMES, 2401)
    assert frames.X.dtype == np.float32
    assert frames.X.flags.c_contiguous
    assert frames.column_names[::600] == ("x1", "x51", "x101", "x151", "intercept")
    assert (frames.X[:, -1] == 1).all()
    values = values_of(ref).reshape(N_FRAMES, 200, 12)
    for j, column in enumerate(dataset.columns):
        expected = np.clip((values[:, :, j] - column.center) / column.scale, -CLIP, CLIP)
        np.testing.assert_allclose(frames.X[:, j:-1:12], expected, atol=1e-5)
    assert np.abs(frames.X).max() == CLIP
    assert set(frames.y) == {0, 1}
    np.testing.assert_array_equal(frames.groups, np.arange(N_FRAMES) // 16)


def test_standardized_scales_are_those_of_the_data(swarm):
    dataset, ref = swarm
    found = scales(ref, dataset, "standardized")
    values = values_of(ref)
    np.testing.assert_allclose(found.center, values.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.scale, values.std(axis=0), rtol=1e-9)
    frames = load_frames(found)
    expected = np.clip((values - found.center) / np.array(found.scale), -CLIP, CLIP)
    np.testing.assert_allclose(frames.X[:, :-1], expected, atol=1e-4)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
@pytest.mark.parametrize("sparsity", [None, 3])
def test_responses_have_the_mean_of_their_family(family, sparsity):
    data = uniform_glm(np.random.default_rng(0), 200_000, 8, family=family, sparsity=sparsity)
    predictor = data.X @ data.truth
    mean = {"gaussian": predictor, "logistic": 1 / (1 + np.exp(-predictor)), "poisson": np.exp(predictor)}
    residual = data.y - mean[family]
    scores = data.X.T @ residual / np.sqrt((data.X**2).T @ residual**2)
    assert np.abs(scores).max() < 4.5
    assert abs(residual.sum()) < 4.5 * np.sqrt((residual**2).sum())
    assert np.linalg.norm(data.truth) == pytest.approx(1)
    assert np.count_nonzero(data.truth) == (sparsity or 8)
    assert np.abs(data.X).max() <= 1
    np.testing.assert_allclose((data.X**2).mean(axis=0), 1 / 3, rtol=0.02)


@pytest.mark.parametrize("sparsity", [None, 5])
def test_the_information_of_a_logistic_model(sparsity):
    data = simulator("prior_logistic")(np.random.default_rng(0), 200_000, 20, sparsity=sparsity)
    assert set(np.unique(data.y)) == {0.0, 1.0}
    scores = (data.y - 1 / (1 + np.exp(-data.X @ data.truth)))[:, None] * data.X
    along = data.truth / np.linalg.norm(data.truth)
    # Normal predictors are assumed: 3 % off for five coefficients.
    for direction in (along, np.eye(20)[0], np.ones(20) / np.sqrt(20)):
        assert np.var(scores @ direction) == pytest.approx(direction @ data.information @ direction, rel=0.05)


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


@pytest.mark.parametrize("m", [3, 10, 11, 17])
def test_draws_are_uniform_over_rows_and_pairs(m):
    n_rows, replicates = 20, 4000
    drawn = draw_rows(n_rows, m, np.random.default_rng(5).spawn(replicates))
    assert (drawn.sum(axis=0) == m).all()
    rows = drawn.astype(float)
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
        (tmp_path / "x.npz").write_bytes(design_bytes(prepared))
        read = read_design(tmp_path / "x.npz", PreparedTable)
        np.testing.assert_array_equal(read.X, prepared.X)
        np.testing.assert_array_equal(read.to_standard, prepared.to_standard)
        assert (read.y is None) == (prepared.y is None)
        assert read.column_names == prepared.column_names
