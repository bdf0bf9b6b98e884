import contextlib
import io
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from data.datasets import get_dataset
from data.errors import StoreError
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch
from data.store.folders import atomic_file, mirror_from_environment
from data.store.shared import write_shared
from tasks.cache import clear_leftovers, prune, result, state_of, stored_results
from tasks.run.compute import table_with_facts
from tests.builders import refused
from tests.tasks.blocks import results_table

DAY = 86_400
MADE = {"at": "2026-11-28"}


def stored(name, content=None):
    made = result("block", ["tasks.run.compute"], name)
    made.write(content or table_with_facts(results_table([1.0, 2.0]), MADE))
    return made


@pytest.fixture
def stocked(home):
    """A home with a current, an unused and a damaged result, and one that an older version left."""
    results = {name: stored(name) for name in ("current", "unused", "damaged")}
    os.utime(results["unused"].path, (time.time() - 31 * DAY,) * 2)
    results["damaged"].path.write_bytes(results["damaged"].path.read_bytes()[:-10])
    older = home / "cache" / "records" / "block-0123"
    older.parent.mkdir()
    older.write_text("{}")
    os.utime(older, (time.time() - 31 * DAY,) * 2)
    return results


def test_pruning_keeps_what_is_current(home, stocked):
    states = {path: state_of(path) for path in stored_results(home)}
    assert [states.pop(each.path) for each in stocked.values()] == ["current", "stale", "damaged"]
    assert len(states) == 1
    removed, freed = prune(home, home.parent / "out", everything=False)
    assert removed == 3
    assert freed > 0
    assert [state_of(path) for path in stored_results(home)] == ["current"]
    assert prune(home, home.parent / "out", everything=True)[0] == 1
    assert stored_results(home) == []


def test_a_result_that_is_found_counts_as_used(home):
    made = stored("one")
    os.utime(made.path, (1000, 1000))
    assert made.is_stored()
    assert made.path.stat().st_mtime > 1000


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".json"])
def test_what_does_not_read_is_not_stored(home, damage, suffix):
    made, arrays = result("design", ["tasks.run.compute"], suffix=suffix), io.BytesIO()
    np.savez_compressed(arrays, X=np.arange(1000))
    table = table_with_facts(results_table([1.0] * 100), {})
    content = {".parquet": table, ".npz": arrays.getvalue(), ".json": b'{"a": 1}'}[suffix]
    made.write(content)
    assert made.is_stored()
    middle = 60 if suffix == ".parquet" else len(content) // 2  # within the rows, which have checksums
    flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
    made.path.write_bytes({"cut": content[:-5], "flipped": flipped, "empty": b""}[damage])
    assert not made.is_stored()
    assert not made.path.exists()


def test_a_byte_that_reads_as_another_number_is_seen_by_its_checksum(home):
    made = stored("one", table_with_facts(results_table(np.random.default_rng(0).random(100).tolist()), {}))
    content, known = made.path.read_bytes(), pq.read_table(made.path)
    for place in range(4, len(content)):
        made.path.write_bytes(content[:place] + bytes([content[place] ^ 0x01]) + content[place + 1 :])
        with contextlib.suppress(Exception):
            if not pq.read_table(made.path).equals(known):
                break
    assert not made.is_stored()


def leftover(path, seconds_ago=60):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    then = path.stat().st_mtime - seconds_ago
    os.utime(path, (then, then))
    return path


def test_what_killed_runs_left_goes_from_store_cache_and_reports(home, stocked):
    reports = home.parent / "out"
    folders = [home / name for name in ("store/raw/housing", "store/parquet", "cache/blocks")]
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


def test_what_another_machine_made_is_found_and_what_is_damaged_is_not(in_shared_store, home):
    made = stored("one")
    made.path.unlink()
    assert made.is_stored()
    assert made.path.exists()
    made.path.unlink()
    write_shared(made.name, b"PAR1 and no more")
    assert not made.is_stored()
    refused(made.stored_path, StoreError, "DPCOST_STORE")
