import json

import pytest

from data.store import sha256_file
from tasks.cache.keys import UNCACHED
from tasks.cache.policy import ByKey
from tasks.cache.records import SERIALIZER, intact, records_folder, stored_record, written


def test_a_record_is_whole_while_its_files_are(tmp_path):
    beside = tmp_path / "page.html"
    beside.write_bytes(b"page")
    record = written(UNCACHED, tmp_path / "a.json", b"{}", beside={"page.html": sha256_file(beside)}, rows=3)
    assert record["rows"] == 3
    assert intact(record)
    beside.write_bytes(b"edited")
    assert not intact(record)
    beside.unlink()
    assert not intact(record)


def test_a_record_of_a_damaged_or_missing_file_is_not_whole(tmp_path):
    record = written(UNCACHED, tmp_path / "a.bin", b"1234")
    assert intact(record)
    (tmp_path / "a.bin").write_bytes(b"123")
    assert not intact(record)
    (tmp_path / "a.bin").unlink()
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
    """Whether a stored result may still be read once its key was asked for."""
    path = records_folder(home) / "block-1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert ByKey().compute_key(None, {"key": path.name}, {}) == path.name
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
    assert "block-1 is not plain JSON; it is refused and made again" in caplog.text


def test_plain_json_is_read_back(home):
    assert looked_up(home, stored())
    assert ByKey().compute_key(None, {"key": "block-2"}, {}) == "block-2"
