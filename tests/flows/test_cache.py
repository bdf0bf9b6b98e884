import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from prefect.filesystems import LocalFileSystem
from prefect.results import ResultStore
from prefect.transactions import transaction

from data.datasets import get_dataset
from data.errors import StoreError
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch
from data.store.code_digest import code_digest
from data.store.folders import atomic_file, mirror_from_environment
from data.store.folders import home as home_folder
from data.store.shared import write_shared
from tasks.cache import RECORDS, Target, clear_leftovers, prune, stored_results
from tasks.kept import References, _asked, kept
from tasks.run.compute import table_bytes
from tasks.steps import run_block
from tests.builders import refused
from tests.tasks.blocks import results_table

DAY = 86_400


def stored(name, content=None, suffix=".parquet"):
    """Write a result, and the record that Prefect keeps of it, under a key."""
    roots = ("tasks.run.compute",)
    target = Target(f"cache/{name}{suffix}", roots, code_digest(roots))
    made = replace(target.write(content or table_bytes(results_table([1.0, 2.0]))), key=name)
    with transaction(key=name, store=records()) as kept:
        kept.stage(made)
    return made


def records():
    folder = LocalFileSystem(basepath=home_folder() / RECORDS)
    return ResultStore(result_storage=folder, serializer=References(), cache_result_in_memory=False)


def is_found(name):
    """Whether Prefect finds a record under a key, as it looks it up before a task."""
    token = _asked.set(name)
    try:
        return records().exists(name)
    finally:
        _asked.reset(token)


def test_two_clients_of_a_worker_get_the_results_of_their_own_runs(in_shared_store, tmp_path, monkeypatch):
    """The times in two results of a block differ, and the second one replaced the first: a run failed."""
    contents = [table_bytes(results_table([1.0, each])) for each in (2.0, 3.0)]
    results = [stored("block", each) for each in contents]
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "client"))
    for result, content in zip(results, contents, strict=True):
        assert result.stored_path().read_bytes() == content


@pytest.fixture
def stocked(home):
    """A home with a current, an unused and a damaged result, and one that an older version left."""
    results = {name: stored(name) for name in ("current", "unused", "damaged")}
    os.utime(results["unused"].path, (time.time() - 31 * DAY,) * 2)
    results["damaged"].path.write_bytes(results["damaged"].path.read_bytes()[:-10])
    (home / RECORDS / "block-0123").write_text("{}")
    return results


def test_pruning_keeps_what_is_current(home, stocked):
    assert [made is None for made in stored_results(home).values()] == [True, False, False, False]
    removed, freed = prune(home, home.parent / "out", everything=False)
    assert removed == 3
    assert freed > 0
    assert list(stored_results(home).values()) == [stocked["current"]]
    assert list((home / "cache").glob("*.parquet")) == [stocked["current"].path]
    assert prune(home, home.parent / "out", everything=True)[0] == 1
    assert stored_results(home) == {}


def test_a_result_that_is_found_counts_as_used(home):
    made = stored("one")
    os.utime(made.path, (1000, 1000))
    assert is_found("one")
    assert made.path.stat().st_mtime > 1000


DAMAGES = {
    "cut": lambda content: content[:-5],
    "flipped": lambda content: (
        content[: len(content) // 2]
        + bytes([content[len(content) // 2] ^ 1])
        + content[len(content) // 2 + 1 :]
    ),
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".json"])
def test_what_is_not_whole_is_not_found(home, damage, suffix):
    made = stored("one", b"content of any kind", suffix)
    assert is_found("one")
    if damage == "missing":
        made.path.unlink()
    else:
        made.path.write_bytes(DAMAGES[damage](made.path.read_bytes()))
    assert not is_found("one")


@pytest.mark.parametrize("damage", ["cut", "empty"])
def test_a_record_that_is_not_whole_is_not_found(home, damage):
    stored("one")
    record = home / RECORDS / "one"
    record.write_bytes(DAMAGES[damage](record.read_bytes()))
    assert not is_found("one")


def swap(one, other):
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


@pytest.mark.parametrize("what", ["files", "records"])
def test_what_was_swapped_with_another_result_is_not_found(home, what):
    """Both read well; only the sha256 of a file, and the key of a record, tell that each is another's."""
    one, other = (stored(name, name.encode()) for name in ("one", "other"))
    assert is_found("one")
    assert is_found("other")
    if what == "files":
        swap(one.path, other.path)
    else:
        swap(home / RECORDS / "one", home / RECORDS / "other")
    assert not is_found("one")
    assert not is_found("other")
    if what == "records":
        assert list(stored_results(home).values()) == [None, None]


def leftover(path, seconds_ago=60):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    then = path.stat().st_mtime - seconds_ago
    os.utime(path, (then, then))
    return path


def test_what_killed_runs_left_goes_from_store_cache_and_reports(home, stocked):
    reports = home.parent / "out"
    folders = [home / name for name in ("store/raw/housing", "store/parquet", "cache")]
    folders += [reports, reports / "small", reports / "small" / "figures"]
    gone = [leftover(folder / ".a.parquet.0123abcd.part") for folder in folders]
    mine = leftover(reports / ".notes.part")
    clear_leftovers(home, reports)
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


def test_pruning_the_store_keeps_the_tables_that_were_used(home):
    dataset = get_dataset("housing")
    raw = fetch(dataset, home=home, mirror=mirror_from_environment(), offline=True)
    table = Path(to_parquet(dataset, raw, home=home).path)
    older = table.with_name(table.name.replace(table.stem[-8:], "01234567"))
    for suffix in (".parquet", ".json"):
        shutil.copy(table.with_suffix(suffix), older.with_suffix(suffix))
    size = older.stat().st_size
    os.utime(older, (0, 0))
    assert prune(home, home.parent / "out", everything=False)[1] > size
    assert sorted(table.parent.iterdir()) == sorted([table, table.with_suffix(".json")])
    assert Path(raw.path).exists()


def test_records_go_to_a_folder_that_machines_share(home, tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_STORE", f"file://{tmp_path}/team")
    assert kept(run_block).result_storage == tmp_path / "team" / RECORDS


def test_what_another_machine_made_is_found_and_what_is_damaged_is_not(in_shared_store, home):
    made = stored("one")
    made.path.unlink()
    assert made.is_whole()
    assert made.path.exists()
    made.path.unlink()
    write_shared(made.files[0][0], b"PAR1 and no more")
    assert not made.is_whole()
    refused(made.stored_path, StoreError, "DPCOST_STORE")
