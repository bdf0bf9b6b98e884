import json

import pytest

from data.store import sha256_file
from tasks.cache.records import intact, stored_record, written


def test_a_record_is_whole_while_its_files_are(tmp_path):
    beside = tmp_path / "page.html"
    beside.write_bytes(b"page")
    record = written(tmp_path / "a.json", b"{}", beside={"page.html": sha256_file(beside)}, rows=3)
    assert record["rows"] == 3
    assert intact(record)
    beside.write_bytes(b"edited")
    assert not intact(record)
    beside.unlink()
    assert not intact(record)


def test_a_record_of_a_damaged_or_missing_file_is_not_whole(tmp_path):
    record = written(tmp_path / "a.bin", b"1234")
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
