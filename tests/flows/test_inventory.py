import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from small_project import sentence

from data.dataset import Declaration, DeclaredColumn
from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw_files import fetch
from data.store.folders import atomic_file, mirror_from_environment, totals
from data.store.shared import remove_shared, shared_files, write_shared
from data.tables.declared import declared_to_parquet
from flows.record import inventory
from flows.record.inventory import clear_leftovers, entries, n_bytes, prune, prune_shared
from flows.studies.prefect_tasks import ByKey
from tasks.cache import SERIALIZER, UNCACHED, CacheKey, written
from tasks.errors import SpecError


def store(home, name, record):
    path = home / "cache" / "records" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"result": json.dumps(record)}))


def key(letter):
    return f"block-{letter * 32}"


@pytest.fixture
def stocked(home):
    """A home with a current, a stale and a damaged result, a replaced report and an error of a failed run."""
    blocks = home / "cache" / "blocks"
    attached = {"a.timings.parquet": b"times"}
    store(home, key("a"), written(UNCACHED, blocks / "a.parquet", b"rows", attached))
    store(
        home,
        key("b"),
        written(UNCACHED, blocks / "b.parquet", b"rows")
        | {"code": {"modules": ["data.store.folders"], "of_page": False, "sha256": "older"}},
    )
    store(home, key("c"), written(UNCACHED, blocks / "c.parquet", b"rows"))
    (blocks / "c.parquet").write_bytes(b"cut")
    store(home, key("d"), written(UNCACHED, home.parent / "out" / "results.parquet", b"rows"))
    (home.parent / "out" / "results.parquet").write_bytes(b"of a later run")
    page = home.parent / "out" / "small" / "report.html"
    report = written(UNCACHED, page, b"<html>", {"figures/main.svg": b"<svg/>"})
    store(home, key("e").replace("block", "page"), report)
    (home / "cache" / "records" / "7156a137c9b244ab9cf6b872bcc3edb0").write_text("gASV")
    (blocks / "unnamed.parquet").write_bytes(b"rows")
    return home


def test_states(stocked):
    states = {entry.name[-1]: entry.state for entry in entries(stocked)}
    assert states == {
        "a": "current",
        "b": "stale",
        "c": "damaged",
        "d": "stale",
        "e": "current",
        "0": "stale",
    }


def test_the_list_says_of_a_block_what_ran_where_and_how_long(stocked, command_line):
    made = {"what": "small public:n=100 · ols", "host": "vm", "process": 7}
    rows = stocked / "cache" / "blocks" / "a.parquet"
    store(stocked, key("a"), written(UNCACHED, rows, b"rows", seconds=1.25, made=made))
    first = next(entry for entry in entries(stocked) if entry.name == key("a"))
    assert (first.what, first.where, first.seconds) == ("small public:n=100 · ols", "vm (process 7)", 1.25)
    status, out, _ = command_line("cache", "list")
    assert status == 0
    assert f"kB  {key('a')}  small public:n=100 · ols: 1.2 s on vm (process 7)\n" in out
    assert f"kB  {key('c')}\n" in out


def test_pruning_keeps_what_is_current_and_every_report(stocked):
    removed, freed = prune(stocked, stocked.parent / "out", everything=False)
    assert removed == 4
    assert freed > 0
    assert [entry.state for entry in entries(stocked)] == ["current", "current"]
    names = {path.name for path in (stocked / "cache" / "blocks").iterdir()}
    assert names == {"a.parquet", "a.timings.parquet"}
    assert (stocked.parent / "out" / "results.parquet").exists()
    assert prune(stocked, stocked.parent / "out", everything=True)[0] == 2
    assert entries(stocked) == []


def test_a_size_limit_takes_the_least_recently_used_first(stocked):
    names = [entry.name for entry in entries(stocked) if entry.state == "current"]
    for age, name in enumerate(names):
        os.utime(stocked / "cache" / "records" / name, (1000 - age, 1000 - age))
    sizes = {entry.name: entry.bytes for entry in entries(stocked)}
    record = stocked / "cache" / "records" / names[0]
    assert sizes[names[0]] == record.stat().st_size + len(b"rows") + len(b"times")
    prune(stocked, stocked.parent / "out", everything=False, keep=sum(sizes[name] for name in names))
    assert [entry.name for entry in entries(stocked)] == names
    prune(stocked, stocked.parent / "out", everything=False, keep=sizes[names[0]])
    assert [entry.name for entry in entries(stocked)] == names[:1]
    assert {path.name for path in (stocked / "cache" / "blocks").iterdir()} == {
        "a.parquet",
        "a.timings.parquet",
    }
    prune(stocked, stocked.parent / "out", everything=False, keep=0)
    assert entries(stocked) == []


def test_a_result_that_is_found_counts_as_used(home):
    record = home / "cache" / "records" / key("a")
    record.parent.mkdir(parents=True)
    result = json.dumps({"path": "x"})
    about = {"serializer": SERIALIZER, "storage_block_id": None}
    record.write_text(json.dumps({"metadata": about, "result": result}))
    os.utime(record, (1000, 1000))
    ByKey().compute_key(Mock(), {"key": key("a")}, None)
    assert record.stat().st_mtime > 1000


def test_sizes_are_read_with_their_units():
    assert [n_bytes(text) for text in ("2GB", "1.5 MB", "0B", "3kB")] == [2 * 10**9, 1_500_000, 0, 3000]
    for text in ("", "2", "-1GB", "GB", "2GiB", "infGB"):
        with pytest.raises(SpecError, match=f"--keep-size must .*, got '{text}'"):
            n_bytes(text)


def test_a_home_that_is_not_there_is_empty(home):
    assert entries(home) == []
    assert prune(home, home.parent / "out", everything=True) == (0, 0)
    assert {kind: total["files"] for kind, total in totals(home).items()} == {
        "data": 0,
        "cache": 0,
        "server": 0,
    }


def leftover(path, seconds_ago=60):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    then = path.stat().st_mtime - seconds_ago
    os.utime(path, (then, then))
    return path


def test_what_killed_runs_left_goes_from_store_cache_and_reports(stocked):
    reports = stocked.parent / "out"
    gone = [
        leftover(folder / ".a.parquet.0123abcd.part")
        for folder in (
            *(stocked / "store" / "raw" / "housing", stocked / "store" / "parquet"),
            *(stocked / "cache" / "blocks", reports, reports / "small", reports / "small" / "figures"),
        )
    ]
    mine = leftover(reports / ".notes.part")
    clear_leftovers(stocked, reports)
    assert not any(path.exists() for path in gone)
    assert mine.exists()


def test_what_somebody_is_writing_stays(home):
    with atomic_file(home / "store" / "a") as handle:
        handle.write(b"half")
        handle.flush()
        (path,) = (home / "store").glob(".*.part")
        os.utime(path, (0, 0))
        clear_leftovers(home)
        assert path.exists()
    young = leftover(home / "store" / ".b.0123abcd.part", seconds_ago=0)
    clear_leftovers(home)
    assert (home / "store" / "a").read_bytes() == b"half"
    assert young.exists()


def test_pruning_the_store_keeps_the_tables_of_this_code(home):
    dataset = get_dataset("housing")
    raw = fetch(dataset, home=home, mirror=mirror_from_environment(), offline=True)
    table = Path(to_parquet(dataset, raw, home=home).path)
    older = table.with_name(table.name.replace(table.stem[-8:], "01234567"))
    for suffix in (".parquet", ".json"):
        shutil.copy(table.with_suffix(suffix), older.with_suffix(suffix))
    leftover(home / "store" / "refused" / "housing" / "houses.zip")
    size = older.stat().st_size
    assert prune(home, home.parent / "out", everything=False)[1] > size
    assert sorted(table.parent.iterdir()) == sorted([table, table.with_suffix(".json")])
    assert Path(raw.path).exists()
    assert not [path for path in (home / "store" / "refused").rglob("*") if path.is_file()]


def test_pruning_the_store_keeps_tables_of_ones_own_that_this_code_made(home, tmp_path, monkeypatch):
    (tmp_path / "mine.csv").write_text("age\n30\n40\n")
    declaration = Declaration(
        columns=(DeclaredColumn(name="age", lower=0, upper=100),), missing="refuse", n_rows=2
    )

    def made():
        return Path(declared_to_parquet("mine", tmp_path / "mine.csv", declaration, home=home).path)

    with monkeypatch.context() as older_code:
        older_code.setattr("data.tables.declared.code_of_tables", lambda: "01234567")
        older = made()
    table = made()
    prune(home, home.parent / "out", everything=False)
    assert not older.exists()
    assert table.exists()


DAY = 86_400


@pytest.fixture
def shared(in_shared_store, home):
    """A shared store: two current results, one of other code, two damaged, a file without a record."""
    blocks = home / "cache" / "blocks"
    written(CacheKey("block-a"), blocks / "a.parquet", b"rows", {"a.timings.parquet": b"times"})
    written(CacheKey("block-b"), blocks / "b.parquet", b"more rows")
    record = written(UNCACHED, blocks / "c.parquet", b"rows")
    older = record | {"code": {"modules": ["data.store.folders"], "of_page": False, "sha256": "older"}}
    write_shared("cache/records/block-c.json", json.dumps(older).encode())
    write_shared("cache/records/block-d.json", b"{")
    write_shared("cache/records/block-e.json", json.dumps(record | {"path": "cache/blocks/gone"}).encode())
    write_shared("cache/blocks/stray.parquet", b"rows")
    write_shared("store/parquet/table.parquet", b"a table")
    write_shared("reports/index.html", b"<html>")
    remove_shared(["cache/records/uncached.json"])
    return in_shared_store


A = {"cache/records/block-a.json", "cache/blocks/a.parquet", "cache/blocks/a.timings.parquet"}
B = {"cache/records/block-b.json", "cache/blocks/b.parquet"}
STAY = {"store/parquet/table.parquet", "reports/index.html"}
STRAY = {"cache/blocks/stray.parquet"}


def aged(monkeypatch, **seconds):
    """Let files of the shared store be so old: by what their name contains."""

    def files(folder):
        now = time.time()
        ages = {file.name: max([0, *(s for n, s in seconds.items() if n in file.name)]) for file in found}
        return [replace(file, written=now - ages[file.name]) for file in shared_files(folder)]

    found = shared_files("cache")
    monkeypatch.setattr(inventory, "shared_files", files)


def test_what_is_damaged_or_of_other_code_goes(shared):
    sizes = {name: len(content) for name, content in shared().items()}
    gone = {f"cache/records/block-{letter}.json" for letter in "cde"} | {"cache/blocks/c.parquet"}
    assert prune_shared(everything=False) == (3, sum(sizes[name] for name in gone))
    assert set(shared()) == A | B | STAY | STRAY
    assert prune_shared(everything=False) == (0, 0)


def test_files_without_a_record_go_once_nobody_can_be_writing_them(shared, monkeypatch):
    prune_shared(everything=False)
    aged(monkeypatch, stray=DAY - 60, timings=10 * DAY)
    prune_shared(everything=False)
    assert set(shared()) == A | B | STAY | STRAY
    aged(monkeypatch, stray=DAY + 60, timings=10 * DAY)
    assert prune_shared(everything=False) == (0, len(b"rows"))
    assert set(shared()) == A | B | STAY


def test_a_size_limit_takes_the_oldest_first(shared, monkeypatch):
    prune_shared(everything=False)
    sizes = {name: len(content) for name, content in shared().items()}
    aged(monkeypatch, **{"block-b": 3600})
    both = sum(sizes[name] for name in A | B)
    prune_shared(everything=False, keep=both)
    assert set(shared()) == A | B | STAY | STRAY
    removed, freed = prune_shared(everything=False, keep=both - 1)
    assert (removed, freed) == (1, sum(sizes[name] for name in B))
    assert set(shared()) == A | STAY | STRAY


def test_everything_of_the_cache_goes_on_request(shared):
    prune_shared(everything=True)
    assert set(shared()) == STAY | STRAY


def test_a_file_of_two_results_stays_with_the_one_that_does(shared):
    older = json.loads(shared()["cache/records/block-b.json"]) | {"code": None}
    write_shared("cache/records/block-f.json", json.dumps(older).encode())
    prune_shared(everything=False)
    assert set(shared()) >= B
    assert "cache/records/block-f.json" not in shared()


@pytest.mark.parametrize("in_shared_store", ["file"], indirect=True)
def test_the_command_prunes_the_shared_store_and_not_the_home(shared, home, command_line):
    status, out, _ = command_line("cache", "prune", "--store", "--all", "--keep-size", "0B")
    assert (status, out) == (0, "removed 5 stored results, 0.0 MB\n")
    assert set(shared()) == STAY | STRAY
    assert (home / "cache" / "blocks" / "a.parquet").exists()


def test_without_a_shared_store_it_is_refused_in_words(command_line, monkeypatch):
    monkeypatch.delenv("DPCOST_STORE", raising=False)
    err = sentence(command_line("cache", "prune", "--store"))
    assert "set DPCOST_STORE" in err
    with pytest.raises(SpecError):
        prune_shared(everything=True)
