"""The tasks without an orchestrator: ``task.fn`` is the function itself."""

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from unittest.mock import Mock

import pandas as pd
import pytest

from data.errors import StoreError, Unreachable
from data.fetch.raw_files import RawFile
from data.store.references import DatasetRef
from flows.studies.find_study import find_study
from reports.analysis.results import selections_path, timings_path
from reports.pages.index import Card
from tasks.cache import SERIALIZER, UNCACHED, CacheKey, intact, located, records_folder
from tasks.ingest import fetch, parquet
from tasks.report.manifest import build_manifest
from tasks.report.write import write_index
from tasks.run.block import prepare, run_block
from tasks.run.collect import collect
from tasks.run.headline import audit, data_limit
from tests.tasks.blocks import context


@pytest.fixture
def raw(home):
    return fetch("housing", offline=True)


@pytest.fixture
def block():
    (first, *_) = find_study("housing").blocks("smoke", replicates=2, seed=1)
    return first


@pytest.fixture
def ready(raw, tmp_path):
    problem = find_study("housing").panel("public").problem
    return prepare(UNCACHED, problem, parquet(raw))


def test_fetching_again_keeps_what_the_store_has_if_nobody_delivers(raw, home, tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("data.fetch.raw_files.EMBEDDED", tmp_path / "nowhere")
    with pytest.raises(Unreachable):
        fetch("housing", offline=True, again=True)
    assert fetch("housing", offline=True).origin == "store"


def test_a_stand_in_is_simulated_by_the_cores_that_no_other_call_uses(home, monkeypatch):
    asked = []
    monkeypatch.setattr("tasks.run.resources._count_threads", lambda: asked.append("now") or 2)
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    assert parquet(raw, stand_in_rows=32).n_rows == 32
    assert asked


KEY = CacheKey("block-1")


def keep(home, record):
    """Write a record into the result store of a home, as Prefect does."""
    folder = records_folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    about = {"serializer": SERIALIZER, "storage_block_id": None}
    (folder / KEY.name).write_text(json.dumps({"result": json.dumps(record), "metadata": about}))


def test_a_block_is_written_and_one_cell_of_it_takes_its_place(home, ready, block, tmp_path):
    path = tmp_path / "block.parquet"
    record = run_block(KEY, block, ready, str(path))
    keep(home, record)
    assert intact(record)
    assert record["made"] == {
        "what": f"{block.replicates.study} {block.title}",
        "host": socket.gethostname(),
        "process": os.getpid(),
    }
    first = pd.read_parquet(timings_path(path))
    assert record["seconds"] == first["seconds"].sum()
    chosen = block.cells[-1].key
    again = run_block(KEY, block, ready, str(path), chosen)
    second = pd.read_parquet(timings_path(path))
    assert again["sha256"] == record["sha256"]
    assert again["attached"] != record["attached"]
    assert first.drop(columns="seconds").equals(second.drop(columns="seconds"))
    assert set(first["cell"][first["seconds"] != second["seconds"]]) == {chosen}


@pytest.fixture
def elsewhere(home, tmp_path, monkeypatch):
    """The home of another machine, which computes all blocks; both machines share a store."""

    def computed_there(size, function, *arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DPCOST_HOME", str(tmp_path / "elsewhere"))
            return function(*arguments)

    monkeypatch.setenv("DPCOST_STORE", f"file://{tmp_path}/shared")
    monkeypatch.setattr("tasks.run.block.computed", computed_there)
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("left", ["nothing", "other files"])
def test_another_machine_runs_one_cell_among_the_stored_ones(
    home, elsewhere, ready, block, monkeypatch, left
):
    path = "cache/blocks/block-1.parquet"
    monkeypatch.setattr(type(block.problem), "selected", lambda *_: {"a column": 1})
    record = run_block(KEY, block, ready, path)
    keep(home, record)
    if left == "nothing":
        shutil.rmtree(elsewhere)
    else:
        of_one_cell = run_block(
            UNCACHED, replace(block, cells=block.cells[:1]), ready, "cache/blocks/one.parquet"
        )
        for file in (of_one_cell["path"], *(f"cache/blocks/{name}" for name in of_one_cell["attached"])):
            (elsewhere / file).replace(elsewhere / file.replace("/one.", "/block-1."))
    again = run_block(KEY, block, ready, path, block.cells[-1].key)
    assert again["sha256"] == record["sha256"]
    chosen = selections_path(elsewhere / path)
    assert set(json.loads(chosen.read_bytes())) == {cell.key for cell in block.cells}
    assert again["attached"][chosen.name] == record["attached"][chosen.name]
    times = pd.read_parquet(timings_path(elsewhere / path))
    assert set(times["cell"]) == {cell.key for cell in block.cells}


def test_selections_that_the_record_does_not_name_are_not_read(home, ready, block, tmp_path):
    path = tmp_path / "block.parquet"
    record = run_block(KEY, block, ready, str(path))
    keep(home, record)
    selections_path(path).write_text(json.dumps({block.cells[0].key: {"a column": 1}}))
    again = run_block(KEY, block, ready, str(path), block.cells[-1].key)
    assert set(again["attached"]) == set(record["attached"])


def test_one_cell_is_refused_where_the_others_cannot_be_had(home, elsewhere, ready, block, tmp_path):
    path = "cache/blocks/block-1.parquet"
    record = run_block(KEY, block, ready, path)
    with pytest.raises(StoreError, match="DPCOST_STORE"):
        run_block(KEY, block, ready, path, block.cells[-1].key)
    keep(home, record)
    shutil.rmtree(elsewhere / "cache" / "blocks")
    shutil.rmtree(tmp_path / "shared" / "cache" / "blocks")
    with pytest.raises(StoreError, match="DPCOST_STORE"):
        run_block(KEY, block, ready, path, block.cells[-1].key)
    assert not located(record).exists()


def test_measured_times_are_kept_apart_so_that_two_runs_write_the_same_table(ready, block, tmp_path):
    written = []
    for home in ("one", "two"):
        part = run_block(UNCACHED, block, ready, str(tmp_path / home / "block.parquet"))
        limit = data_limit(UNCACHED, block, ready, str(tmp_path / home / "limit.parquet"), [1])
        written.append(collect(UNCACHED, [part, limit], [], str(tmp_path / home)))
    assert len({record["sha256"] for record in written}) == 1
    assert all(map(intact, written))
    times = pd.read_parquet(tmp_path / "one" / "timings.parquet")
    assert list(times) == ["study", "cell", "replicate", "seconds"]
    assert set(times["cell"]) == {cell.key for cell in block.cells}
    assert times["seconds"].gt(0).all()


def test_collecting_keeps_the_order_of_the_parts(ready, block, tmp_path):
    part = run_block(UNCACHED, block, ready, str(tmp_path / "block.parquet"))
    limit = data_limit(UNCACHED, block, ready, str(tmp_path / "limit.parquet"), [1, 10])
    record = collect(UNCACHED, [limit, part], [], str(tmp_path / "out"))
    rows = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert record["rows"] == len(rows)
    assert list(rows["metric"].unique()) == ["deletion_shift", "l2_error", "signs_right"]
    stored = [pd.read_parquet(part["path"]) for part in (limit, part)]
    assert len(rows) == sum(map(len, stored))
    assert rows["value"].tolist() == [value for table in stored for value in table["value"]]


def test_a_table_shows_what_an_audit_found(ready, block, tmp_path, monkeypatch):
    finding = Mock(epsilon_lower_bound=0.25, to_dict=lambda: {})
    monkeypatch.setattr("dpalgos.audit.lower_bound.audit_estimator", Mock(return_value=finding))
    cell = next(cell for cell in block.cells if cell.estimator == "adassp" and cell.calibration == "paper")
    found = audit(UNCACHED, cell, 3, 1000, 5, str(tmp_path / "audit.json"))
    part = run_block(UNCACHED, block, ready, str(tmp_path / "block.parquet"))
    collect(UNCACHED, [part], [found], str(tmp_path / "out"))
    rows = pd.read_parquet(tmp_path / "out" / "results.parquet").dropna(subset="audited_epsilon")
    assert set(rows["cell"]) == {cell.key}
    assert set(rows["audited_epsilon"]) == {0.25}


def test_a_manifest_names_no_place_of_this_machine(home, monkeypatch):
    monkeypatch.setattr("tasks.report.manifest.budget_split", lambda spec: {})
    asked = context("housing", profile="smoke")
    table = DatasetRef(
        name="housing",
        path=str(home / "store" / "parquet" / "x.parquet"),
        sha256="5",
        **dict.fromkeys(("source_sha256", "source_url", "layout"), ""),
        origin="store",
        data_source="real",
        n_rows=1,
        rows_read=1,
    )
    plain = build_manifest(find_study("housing"), [table], {"sha256": "6"}, asked)
    assert plain["data"][0]["path"] == "store/parquet/x.parquet"
    assert str(home) not in str(plain)
    assert plain["study"]["file"] == "flows/studies/housing.toml"
    run, rerun, report = plain["rerun_commands"]
    assert run == "dpcost run housing --profile smoke --reps 3 --seed 1"
    assert rerun.startswith("dpcost rerun housing --task run_block --cell ")
    assert ":n=20600" in rerun or ":n=100" in rerun  # a cell of this profile
    assert report == "dpcost report housing"
    mine = build_manifest(
        find_study("housing"),
        [table],
        {"sha256": "6"},
        context("a b/mine.toml", profile="smoke", out="my out"),
    )
    assert mine["study"]["file"] == "mine.toml"
    assert mine["rerun_commands"][2] == "dpcost report 'a b/mine.toml' --out 'my out'"


def test_the_index_is_written_again_only_where_a_card_has_changed(tmp_path):
    index = write_index(tmp_path)
    index.write_bytes(index.read_bytes().replace(b"</html>", b"</html >"))
    kept = index.read_bytes()
    assert write_index(tmp_path).read_bytes() == kept
    (tmp_path / "housing").mkdir()
    (tmp_path / "housing" / "card.json").write_text("{}")
    assert write_index(tmp_path).read_bytes() != kept


def test_an_index_that_tells_of_a_private_report_is_its_owners_alone(tmp_path):
    for study, mode in (("mine", 0o700), ("housing", 0o755)):
        (tmp_path / study).mkdir()
        (tmp_path / study).chmod(mode)
        card = Card(study, study, "0.1", "real", "2026-11-20T10:00:00+00:00", 1.0, "", "x", "smoke")
        (tmp_path / study / "card.json").write_text(card.to_json())
    assert write_index(tmp_path).stat().st_mode & 0o077 == 0
    (tmp_path / "mine" / "card.json").unlink()
    (tmp_path / "usual").touch()
    assert write_index(tmp_path).stat().st_mode == (tmp_path / "usual").stat().st_mode


ENDED_BLOCK = """
import threading
import numpy
from threadpoolctl import threadpool_info, threadpool_limits
from tasks.run.resources import one_blas_thread

def in_a_thread(do, *given):
    thread = threading.Thread(target=do, args=given)
    thread.start()
    thread.join()
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

print(in_a_thread(threadpool_limits, 4), in_a_thread(one_blas_thread))
"""


def test_a_block_that_ends_leaves_the_others_their_one_blas_thread():
    """The number of threads decides the last bits, and the limit is the process's."""
    done = subprocess.run([sys.executable, "-c", ENDED_BLOCK], capture_output=True, text=True, check=True)
    assert done.stdout == "{4} {1}\n"
