import json
import time
from dataclasses import replace

import pytest
from small_project import sentence

from data.store.shared import remove_shared, shared_files, write_shared
from flows.record import inventory as shared_inventory
from tasks.cache import UNCACHED, CacheKey, written
from tasks.faults import SpecError

DAY = 86_400


@pytest.fixture
def stocked(in_shared_store, home):
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
    monkeypatch.setattr(shared_inventory, "shared_files", files)


def test_what_is_damaged_or_of_other_code_goes(stocked):
    sizes = {name: len(content) for name, content in stocked().items()}
    gone = {f"cache/records/block-{letter}.json" for letter in "cde"} | {"cache/blocks/c.parquet"}
    assert shared_inventory.prune_shared(everything=False) == (3, sum(sizes[name] for name in gone))
    assert set(stocked()) == A | B | STAY | STRAY
    assert shared_inventory.prune_shared(everything=False) == (0, 0)


def test_files_without_a_record_go_once_nobody_can_be_writing_them(stocked, monkeypatch):
    shared_inventory.prune_shared(everything=False)
    aged(monkeypatch, stray=DAY - 60, timings=10 * DAY)
    shared_inventory.prune_shared(everything=False)
    assert set(stocked()) == A | B | STAY | STRAY
    aged(monkeypatch, stray=DAY + 60, timings=10 * DAY)
    assert shared_inventory.prune_shared(everything=False) == (0, len(b"rows"))
    assert set(stocked()) == A | B | STAY


def test_a_size_limit_takes_the_oldest_first(stocked, monkeypatch):
    shared_inventory.prune_shared(everything=False)
    sizes = {name: len(content) for name, content in stocked().items()}
    aged(monkeypatch, **{"block-b": 3600})
    both = sum(sizes[name] for name in A | B)
    shared_inventory.prune_shared(everything=False, keep=both)
    assert set(stocked()) == A | B | STAY | STRAY
    removed, freed = shared_inventory.prune_shared(everything=False, keep=both - 1)
    assert (removed, freed) == (1, sum(sizes[name] for name in B))
    assert set(stocked()) == A | STAY | STRAY


def test_everything_of_the_cache_goes_on_request(stocked):
    shared_inventory.prune_shared(everything=True)
    assert set(stocked()) == STAY | STRAY


def test_a_file_of_two_results_stays_with_the_one_that_does(stocked):
    older = json.loads(stocked()["cache/records/block-b.json"]) | {"code": None}
    write_shared("cache/records/block-f.json", json.dumps(older).encode())
    shared_inventory.prune_shared(everything=False)
    assert set(stocked()) >= B
    assert "cache/records/block-f.json" not in stocked()


@pytest.mark.parametrize("in_shared_store", ["file"], indirect=True)
def test_the_command_prunes_the_shared_store_and_not_the_home(stocked, home, command_line):
    status, out, _ = command_line("cache", "prune", "--store", "--all", "--keep-size", "0B")
    assert (status, out) == (0, "removed 5 stored results, 0.0 MB\n")
    assert set(stocked()) == STAY | STRAY
    assert (home / "cache" / "blocks" / "a.parquet").exists()


def test_without_a_shared_store_it_is_refused_in_words(command_line, monkeypatch):
    monkeypatch.delenv("DPCOST_STORE", raising=False)
    err = sentence(command_line("cache", "prune", "--store"))
    assert "--store needs the address of a shared store; set DPCOST_STORE, or leave it out" in err
    with pytest.raises(SpecError):
        shared_inventory.prune_shared(everything=True)
