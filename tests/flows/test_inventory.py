import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw_files import fetch, mirror_from_environment
from data.store.folders import atomic_write
from flows.record.inventory import clear_leftovers, entries, n_bytes, prune, totals
from flows.studies.prefect_tasks import ByKey
from tasks.cache import SERIALIZER, UNCACHED, written
from tasks.faults import SpecError


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
    beside = {"a.timings.parquet": b"times"}
    store(home, key("a"), written(UNCACHED, blocks / "a.parquet", b"rows", beside))
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


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("1.5 MB", 1_500_000), ("0B", 0), ("3kB", 3000)]
)
def test_sizes(text, size):
    assert n_bytes(text) == size


@pytest.mark.parametrize("text", ["", "2", "-1GB", "GB", "2GiB", "infGB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(SpecError, match="--keep-size must be a number of B, kB, MB, GB or TB, got"):
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
    seen = []

    def write(handle):
        handle.write(b"half")
        handle.flush()
        (path,) = (home / "store").glob(".*.part")
        os.utime(path, (0, 0))
        clear_leftovers(home)
        seen.append(path.exists())

    atomic_write(home / "store" / "a", write)
    young = leftover(home / "store" / ".b.0123abcd.part", seconds_ago=0)
    clear_leftovers(home)
    assert seen == [True]
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
