import json

import pytest

from flows import journal
from flows.inventory import entries, prune, recent_runs, totals
from tasks.cache.keys import UNCACHED
from tasks.cache.records import written


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
    store(home, key("a"), written(UNCACHED, blocks / "a.parquet", b"rows"))
    store(
        home,
        key("b"),
        written(UNCACHED, blocks / "b.parquet", b"rows")
        | {"code": {"modules": ["data.store"], "of_page": False, "sha256": "older"}},
    )
    store(home, key("c"), written(UNCACHED, blocks / "c.parquet", b"rows"))
    (blocks / "c.parquet").write_bytes(b"cut")
    store(home, key("d"), written(UNCACHED, home.parent / "out" / "results.parquet", b"rows"))
    (home.parent / "out" / "results.parquet").write_bytes(b"of a later run")
    (home / "cache" / "records" / "7156a137c9b244ab9cf6b872bcc3edb0").write_text("gASV")
    (blocks / "unnamed.parquet").write_bytes(b"rows")
    return home


def test_states(stocked):
    states = {entry.name[-1]: entry.state for entry in entries(stocked)}
    assert states == {"a": "current", "b": "stale", "c": "damaged", "d": "stale", "0": "stale"}


def test_pruning_keeps_what_is_current_and_every_report(stocked):
    removed, freed = prune(stocked, everything=False)
    assert removed == 4
    assert freed > 0
    assert [entry.state for entry in entries(stocked)] == ["current"]
    assert [path.name for path in (stocked / "cache" / "blocks").iterdir()] == ["a.parquet"]
    assert (stocked.parent / "out" / "results.parquet").exists()
    assert prune(stocked, everything=True)[0] == 1
    assert entries(stocked) == []


def test_a_home_that_is_not_there_is_empty(home):
    assert entries(home) == []
    assert prune(home, everything=True) == (0, 0)
    assert {kind: total["files"] for kind, total in totals(home).items()} == {
        "data": 0,
        "cache": 0,
        "server": 0,
    }


def test_runs_are_shown_with_the_dead_among_them(home, monkeypatch):
    from uuid import uuid4

    first, second = str(uuid4()), str(uuid4())
    journal.begin(home, first, "housing", profile="smoke")
    journal.begin(home, second, "housing", profile="smoke")
    journal.end(home, second)
    dead = [entry for entry in journal.history(home) if entry.flow_run_id == first]
    monkeypatch.setattr(journal, "dead_runs", lambda home: dead)
    assert {run["flow_run_id"]: run["status"] for run in recent_runs(home)} == {
        first: "crashed",
        second: "completed",
    }
    assert len(recent_runs(home, limit=1)) == 1
