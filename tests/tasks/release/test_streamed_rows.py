"""``dpcost release`` of a Parquet file: rows are streamed, checked before the charge, and have to stay."""

import json
import multiprocessing
import os
import signal

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpalgos
import tasks.release.release
from data.errors import DataError
from data.formats.row_groups import RowBlocks
from data.ledger.content import Fingerprinter
from data.tables import streams
from data.tables.streams import StreamedTable
from dpalgos.core.rows import Rows
from dpalgos.rows.streams import PartitionedRows
from tasks.dask_cluster import own_cluster
from tasks.release.request import read_request
from tasks.release.rows import columns_read, read_rows, rows_of
from tasks.workers import map_on_workers
from tests.builders import refused, release_words
from tests.flows.small_project import sentence
from tests.tasks.analyst_tables import completed, edited, init_study, numbers_of

CONFIG = '[dataset]\nname = "rides"\n[columns]\nx = ["hours", "steps"]\n'
MEAN = CONFIG + "[bounds]\nvalue_bound = 20.0\n"
REGRESSION = CONFIG + 'y = "cost"\n[bounds]\ncovariate_bound = 15.0\nresponse_bound = 5.0\n'


@pytest.fixture(autouse=True)
def nothing_is_held(monkeypatch):
    monkeypatch.setattr("tasks.release.rows.HELD_NUMBERS", 0)


@pytest.fixture
def dpcost(command_line):
    command_line("ledger", "open", "rides", "--epsilon", 50, "--delta", 1e-5)
    return command_line


def rides(n=20_000):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal([7.0, -3.0], 1.0, (n, 2)), columns=["hours", "steps"])
    cost = table["hours"] * 0.2 - table["steps"] * 0.5
    return table.assign(cost=cost, driver=np.arange(n).astype(str), even=np.arange(n) % 2)


@pytest.fixture
def parquet(tmp_path):
    path = tmp_path / "rides.parquet"
    rides().to_parquet(path, row_group_size=3000)
    return path


def ask(dpcost, data, tmp_path, estimator="dp_mean", config=MEAN, epsilon=5, options=()):
    path = tmp_path / "release.toml"
    path.write_text(config)
    asked = ["--data", data, "--config", path, "--epsilon", epsilon, "--delta", 1e-6, "--json"]
    return dpcost("release", estimator, *asked, *options)


def plain_parquet(table, path):
    """Write a table so that its size does not depend on its numbers."""
    table.to_parquet(path, row_group_size=3000, compression=None, use_dictionary=False)


def swap(path, table):
    """Put other rows into a file, which keeps its inode, its size and its times."""
    before = path.stat()
    fresh = path.with_name("fresh.parquet")
    plain_parquet(table, fresh)
    path.write_bytes(fresh.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def folder(tmp_path):
    """The same rows in three files, and what other programs leave next to them."""
    folder = tmp_path / "rides"
    folder.mkdir()
    for part, (start, stop) in enumerate([(0, 7_001), (7_001, 7_002), (7_002, 20_000)]):
        plain_parquet(rides()[start:stop], folder / f"part-{part}.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def test_a_folder_is_the_same_data_and_its_rows_are_never_held(
    dpcost, folder, parquet, tmp_path, monkeypatch
):
    monkeypatch.setattr(StreamedTable, "in_memory", lambda _: pytest.fail("read into memory"))
    first = json.loads(ask(dpcost, folder, tmp_path)[1])
    assert numbers_of(first) == pytest.approx({"hours": 7.0, "steps": -3.0}, abs=0.2)
    rides().to_csv(tmp_path / "copy.csv", index=False)
    for same in (parquet, folder.as_uri(), tmp_path / "copy.csv"):
        again = json.loads(ask(dpcost, same, tmp_path)[1])
        assert again["release"]["ledger"]["replayed"]
        assert numbers_of(again) == numbers_of(first)
    for data in (folder, parquet):
        found = numbers_of(json.loads(ask(dpcost, data, tmp_path, "adassp", REGRESSION)[1]))
        assert found == pytest.approx({"hours": 0.2, "steps": -0.5}, abs=0.15)


REGIONS = ["north", "south", "west"]


def patients(n=3000):
    rng = np.random.default_rng(1)
    cost = np.where(rng.random(n) < 0.05, -9, rng.integers(0, 9000, n))
    table = pd.DataFrame({"age": rng.normal(50, 20, n).round(1), "cost": cost})
    return table.assign(weight=rng.normal(70, 9, n), region=rng.choice([*REGIONS, "S."], n))


@pytest.fixture
def declared(home, tmp_path):
    """A study of patients with clipping, missing codes and spellings; and their files, in several forms."""
    table = patients()
    table.to_csv(tmp_path / "a.csv", index=False)
    init_study("mine", tmp_path / "a.csv", folder=tmp_path, response="cost")
    limits = {"age": (18, 90), "cost": (0, 8000), "weight": (0, 300)}
    file = completed(tmp_path / "mine.toml", limits, {"region": REGIONS})
    edited(file, 'outside = "refuse"', 'outside = "clip"')
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    edited(file, 'name = "cost"', 'name = "cost"\nmissing = ["-9"]')
    levels = 'levels = { north = ["north"], south = ["S.", "south"], west = ["west"] }'
    edited(file, f"categories = {REGIONS}", levels)
    table.to_parquet(tmp_path / "a.parquet", row_group_size=1000)
    hive = tmp_path / "hive"
    pq.write_to_dataset(pa.Table.from_pandas(table), hive, partition_cols=["region"])
    ordered = pd.concat([table[table.region == name] for name in sorted(table.region.unique())])
    parts = tmp_path / "parts"
    parts.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[rows].to_parquet(parts / f"{k}.parquet")
    fs = fsspec.filesystem("memory")
    for name in ("a.csv", "a.parquet"):
        fs.pipe(f"/{name}", (tmp_path / name).read_bytes())
    local = [tmp_path / "a.csv", tmp_path / "a.parquet", parts]
    return [(table, [*local, "memory://a.csv", "memory://a.parquet"]), (ordered, [hive, hive.as_uri()])]


@pytest.mark.parametrize("room", [0, 1e18])
def test_a_declared_table_is_streamed_in_every_form(declared, tmp_path, monkeypatch, room):
    """Categories, clipped cells and codes for missing values are those of a table in memory."""
    monkeypatch.setattr(streams, "SPARE_BYTES", room)
    asked = read_request(tmp_path / "mine-release.toml", "preconditioned_regression", epsilon=1.0, delta=1e-6)
    contents = set()
    for table, forms in declared:
        age = np.clip(table.age, 18, 90)
        is_clipped = (age != table.age) & (table.cost != -9)
        for form in forms:
            reader = Fingerprinter(b"k" * 32, read=columns_read(asked))
            rows = read_rows(reader, str(form), asked)
            contents.add((reader.fingerprint(), reader.exact()))
            assert rows.rows.streamed
            blocks = list(Rows.of_sample(rows).each())
            X = np.concatenate([block.X for block in blocks])
            y = np.concatenate([block.y for block in blocks])
            held = rows_of(str(form), asked.design, lambda _: None, drops=True)
            np.testing.assert_array_equal(X, held.X)
            np.testing.assert_array_equal(y, held.y)
            known = (table.cost != -9).to_numpy()
            at = {name: X[:, j] for j, name in enumerate(asked.units.names)}
            np.testing.assert_allclose(at["age"], np.where(known, (age - 54) / 18, 0), atol=1e-12)
            south = at["region=south"]
            assert len(np.unique(south[known & table.region.isin(["south", "S."]).to_numpy()])) == 1
            assert not X[~known].any()
            assert not y[~known].any()
            clipped = rows.moved[slice(None)]
            np.testing.assert_array_equal(clipped[:, asked.units.names.index("age")], is_clipped)
    assert len(contents) == 1


LABELS = CONFIG + 'y = "even"\n[bounds]\ncovariate_bound = 15.0\n[params]\nfamily = "logistic"\n'
OTHER_ROWS = lambda table: table.assign(hours=1.0)  # noqa: E731
# Which file changes, after which step, how, the question, and how many charges stay
CHANGES = [
    ("rides.parquet", "check_data", OTHER_ROWS, ("dp_glm", LABELS), 0),
    ("rides.parquet", "draw_release", OTHER_ROWS, ("adassp", REGRESSION), 1),
    ("rides.parquet", "draw_release", lambda table: table.drop(columns="hours"), ("dp_mean", MEAN), 1),
    ("rides.parquet", "draw_release", lambda t: t.assign(hours=[[1.0]] * len(t)), ("dp_mean", MEAN), 1),
    ("rides.parquet", "draw_release", lambda table: table.iloc[:100], ("dp_mean", MEAN), 1),
    *[(f"rides/part-{k}.parquet", "draw_release", OTHER_ROWS, ("dp_mean", MEAN), 1) for k in (0, 2)],
]


@pytest.mark.parametrize(("file", "step", "change", "question", "n_charges"), CHANGES)
def test_data_that_change_after_they_were_fingerprinted_are_not_answered(
    dpcost, parquet, folder, tmp_path, monkeypatch, file, step, change, question, n_charges
):
    """Before the charge it costs nothing; between charge and draw the charge stays, and nothing is shown.

    Where the disk has no room for the numbers that were checked, files are read again.
    """
    monkeypatch.setattr(streams, "SPARE_BYTES", 1e18)
    path = tmp_path / file
    table, place = pd.read_parquet(path), tasks.release.release
    plain_parquet(table, path)
    original, sizes = getattr(place, step), [path.stat().st_size]

    def after_a_change(*arguments):
        swap(path, change(table))
        sizes.append(path.stat().st_size)
        return original(*arguments)

    monkeypatch.setattr(place, step, after_a_change)
    data = parquet if path == parquet else folder
    assert "changed while it was read" in sentence(ask(dpcost, data, tmp_path, *question))
    assert change is not OTHER_ROWS or sizes[0] == sizes[1]
    (shown,) = json.loads(dpcost("ledger", "show", "--json")[1])
    assert [charge["answer"] for charge in shown["charges"]] == [None] * n_charges


def test_folders_that_are_refused_cost_nothing(dpcost, folder, parquet, tmp_path):
    users = MEAN.replace('"steps"]', '"steps"]\nuser_id = "driver"') + "concentration_radius = 2.0\n"
    for estimator, config, data, options, message in (
        ("user_level_mean", users, "memory://nothing", [], "cannot be listed (FileNotFoundError)"),
        ("dp_mean", MEAN, tmp_path / "absent", [], "must end in .csv or .parquet"),
        ("dp_mean", MEAN, tmp_path, [], "has folders inside"),
        ("dp_mean", MEAN, "memory://nothing", [], "cannot be listed (FileNotFoundError)"),
        ("dp_mean", MEAN, parquet, ["--engine", "dask"], "needs a folder of Parquet files as --data"),
    ):
        assert message in sentence(ask(dpcost, data, tmp_path, estimator, config, options=options))
    (folder / "_SUCCESS").touch()
    (folder / "more.csv").touch()
    assert "may hold .parquet files only" in sentence(ask(dpcost, folder, tmp_path))
    (folder / "more.csv").unlink()
    for linked in (type(folder).hardlink_to, type(folder).symlink_to):
        linked(folder / "again.parquet", folder / "part-1.parquet")
        for data in (folder, folder.as_uri()):
            said = sentence(ask(dpcost, data, tmp_path))
            assert [name for name in ("'again.parquet'", "'part-1.parquet'") if name not in said] == []
        (folder / "again.parquet").unlink()
    plain_parquet(rides(5).assign(more=1), folder / "part-3.PARQUET")
    assert "the same columns" in sentence(ask(dpcost, folder, tmp_path))
    assert json.loads(dpcost("ledger", "show", "--json")[1])[0]["charges"] == []


def test_blocks_of_rows_are_of_one_parquet_file(folder, tmp_path):
    (tmp_path / "rides.csv").write_text("hours,steps\n1,2\n")
    for path in (folder, tmp_path / "rides.csv", tmp_path / "nowhere.parquet"):
        refused(lambda path=path: RowBlocks(path, ["hours"]), DataError, "path", path.name)


def part(path, response, deadly):
    """Return a file's rows, whose first reader on a worker dies like one that runs out of memory."""
    read = RowBlocks(path, ["hours", "steps"], response)

    def read_or_die():
        if deadly and not deadly.exists() and multiprocessing.parent_process():
            deadly.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return read()

    return read_or_die, read.n_rows


@pytest.mark.server
def test_workers_give_the_bits_of_one_process_even_if_one_dies(folder, tmp_path):
    """Of a mean, two regressions, a generalized linear model and searches of levels."""
    files = sorted(folder.glob("*.parquet"))
    linear = {"covariate_bound": 9.0, "response_bound": 4.0}
    questions = {
        "dp_mean": {"value_bound": 9.0},
        "clipped_mean": {"mean_bound": 10.0, "std_bounds": (0.1, 10.0)},
        "karwa_vadhan_mean": {"mean_bound": 10.0, "std_bounds": (0.1, 10.0)},
        "dp_linear_regression": {**linear, "coef_bound": 2.0},
        "dp_glm": {**linear, "family": "gaussian", "n_iterations": 3},
        "preconditioned_regression": {},
        "ols": None,
    }

    def answers(mapper, deadly=None):
        for name, bounds in questions.items():
            response = "" if name.endswith("mean") else "cost"
            parts = [part(file, response, deadly) for file in files]
            budget = {} if bounds is None else {"epsilon": 1.0, "delta": 1e-6, **bounds}
            rows, rng = PartitionedRows(parts, mapper), np.random.default_rng(0)
            yield dpalgos.estimate(name, rows, rng=rng, **budget).estimate

    expected = list(answers(map))
    deadly = tmp_path / "killed"
    with own_cluster(2):
        found = list(answers(map_on_workers, deadly))
    assert deadly.exists()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_home_that_cannot_be_written_is_named_with_a_remedy(dpcost, parquet, tmp_path, monkeypatch):
    def read_only(**_):
        raise PermissionError(13, "Permission denied", "tmp1gmlu32")

    monkeypatch.setattr(streams, "TemporaryFile", read_only)
    (config := tmp_path / "release.toml").write_text(MEAN)
    said = sentence(dpcost(*release_words("dp_mean", parquet, config, 0.5)))
    assert "must be writable" in said
    assert "DPCOST_HOME" in said
    assert not json.loads(dpcost("ledger", "show", "--json")[1])[0]["charges"]
