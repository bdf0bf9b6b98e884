import json
import shutil
from unittest.mock import Mock

import pytest
from prefect.filesystems import LocalFileSystem
from prefect.results import ResultStore
from prefect.serializers import JSONSerializer

from data.errors import StoreError
from flows.studies.prefect_tasks import ByKey
from tasks.cache import (
    SERIALIZER,
    UNCACHED,
    CacheKey,
    at_hand,
    brought,
    cache_key,
    intact,
    located,
    records_folder,
    shared_record,
    stored_record,
    written,
)
from tasks.errors import SpecError

CONTEXT = Mock()


@pytest.mark.parametrize("damaged", ["a.json", "page.html"])
def test_a_record_is_whole_while_its_files_are(tmp_path, damaged):
    record = written(UNCACHED, tmp_path / "a.json", b"{}", {"page.html": b"page"}, rows=3)
    assert record["rows"] == 3
    assert intact(record)
    (tmp_path / damaged).write_bytes(b"edited")
    assert not intact(record)
    (tmp_path / damaged).unlink()
    assert not intact(record)


@pytest.mark.parametrize("record", [None, {}, [], "text", {"path": 3, "sha256": ""}, {"path": "x"}])
def test_what_is_no_record_is_not_whole(record):
    assert not intact(record)


@pytest.mark.parametrize("result", [{"path": "x"}, '{"path": "x"}'])
def test_a_stored_record_is_read(tmp_path, result):
    (tmp_path / "key").write_text(json.dumps({"result": result}))
    assert stored_record(tmp_path / "key") == {"path": "x"}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"result": "null"}', '{"result": "gAWV"}', "\x00"])
def test_a_damaged_record_is_none(tmp_path, content):
    (tmp_path / "key").write_text(content)
    assert stored_record(tmp_path / "key") is None
    assert stored_record(tmp_path / "nowhere") is None


def stored(serializer=SERIALIZER, result='{"path": "x"}', block=None):
    return json.dumps({"metadata": {"serializer": serializer, "storage_block_id": block}, "result": result})


def looked_up(home, content):
    path = records_folder(home) / "block-1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert ByKey().compute_key(CONTEXT, {"key": path.name}, {}) == path.name
    return path.exists()


@pytest.mark.parametrize(
    "content",
    [
        stored({"type": "pickle", "picklelib": "pickle"}, "gAWV"),
        stored({"type": "compressed/pickle", "serializer": {"type": "pickle"}, "compressionlib": "lzma"}),
        stored({**SERIALIZER, "object_decoder": "os.system"}),
        stored({**SERIALIZER, "jsonlib": "pickle"}),
        stored(result='{"path": {"__class__": "subprocess.Popen", "data": "true"}}'),
        stored(result='{"__exc_type__": "builtins.ValueError", "message": ""}'),
        stored(result="[]"),
        stored(block="01234567-89ab-cdef-0123-456789abcdef"),
        "{}",
        "\x00",
    ],
)
def test_only_plain_json_is_ever_read_back(home, content, caplog):
    assert not looked_up(home, content)
    assert "block-1 is not plain JSON" in caplog.text


def test_plain_json_is_read_back(home):
    assert looked_up(home, stored())
    assert ByKey().compute_key(CONTEXT, {"key": "block-2"}, {}) == "block-2"


@pytest.fixture
def shared(home, tmp_path, monkeypatch):
    """A record with a second file, in a shared store only."""
    monkeypatch.setenv("DPCOST_STORE", f"file://{tmp_path}/shared")
    blocks = home / "cache" / "blocks"
    record = written(CacheKey("block-1"), blocks / "a.parquet", b"rows", {"a.times": b"times"})
    shutil.rmtree(home)
    return record


def test_a_record_of_the_shared_store_is_adopted_and_its_files_are_brought(home, shared):
    folder = LocalFileSystem(basepath=str(records_folder(home)))
    context = Mock(result_store=ResultStore(serializer=JSONSerializer(), result_storage=folder))
    ByKey().compute_key(context, {"key": "block-1"}, {})
    assert stored_record(records_folder(home) / "block-1") == shared
    assert looked_up(home, (records_folder(home) / "block-1").read_text())
    assert not intact(shared)
    assert at_hand(shared)
    assert intact(shared)
    (home / "cache" / "blocks" / "a.parquet").unlink()
    assert brought(shared).read_bytes() == b"rows"


def test_a_report_within_the_home_is_found_and_not_shared(home, shared, tmp_path):
    record = written(UNCACHED, home / "out" / "small" / "results.parquet", b"rows")
    assert record["path"] == "out/small/results.parquet"
    assert located(record) == home / "out" / "small" / "results.parquet"
    assert intact(record)
    assert not (tmp_path / "shared" / "out").exists()


def test_what_is_damaged_in_the_shared_store_is_not_taken(home, shared, tmp_path):
    (tmp_path / "shared" / "cache" / "blocks" / "a.times").write_bytes(b"other")
    assert not at_hand(shared)
    with pytest.raises(StoreError, match="DPCOST_STORE"):
        brought(shared)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"null",
        b"[]",
        b'{"path": 3}',
        b'{"path": "/etc/passwd"}',
        b'{"path": "cache/../../a"}',
        b'{"path": "cache/blocks/.."}',
        b'{"path": "store/parquet/a"}',
        b'{"path": "cache/blocks/a", "attached": {"../../ledger.key": ""}}',
    ],
)
def test_a_shared_record_about_other_files_than_the_caches_is_none(home, shared, tmp_path, record):
    (tmp_path / "shared" / "cache" / "records" / "block-1.json").write_bytes(record)
    assert shared_record("block-1") is None


def test_other_code_than_the_runs_is_refused(monkeypatch):
    key = cache_key("x", ["tasks.run.block"])
    key.require_same_code()
    monkeypatch.setattr("tasks.cache.code_digest", lambda *_, **__: "other")
    with pytest.raises(SpecError, match="another version"):
        key.require_same_code()
