import time
from pathlib import Path

import fsspec
import pytest

from data.errors import StoreError
from data.store import shared
from data.store.folders import atomic_write, sha256_file


def test_a_file_of_the_home_is_shared_under_its_name_and_comes_back(in_shared_store, home, tmp_path):
    shared.check_shared_store()
    path = home / "cache" / "blocks" / "a.parquet"
    for each in (path, tmp_path / "report.html"):
        atomic_write(each, b"rows")
        shared.share(each)
    digest = sha256_file(path)
    assert in_shared_store() == {"cache/blocks/a.parquet": b"rows"}
    path.unlink()
    assert shared.bring(path, digest)
    assert path.read_bytes() == b"rows"
    assert not shared.bring(tmp_path / "report.html", digest)


def test_what_is_not_there_or_something_else_is_not_brought(in_shared_store, home):
    path = home / "cache" / "blocks" / "a.parquet"
    assert not shared.bring(path, "0" * 64)
    shared.write_shared("cache/blocks/a.parquet", b"half")
    assert not shared.bring(path, "0" * 64)
    assert [each for each in path.parent.iterdir() if each.is_file()] == []
    assert shared.read_shared("missing") is None


def test_files_of_a_folder_are_listed_read_and_removed(in_shared_store, home):
    assert shared.shared_files("cache") == []
    began = time.time()
    for name in ("cache/b/2", "cache/a/1", "cached"):
        shared.write_shared(name, name.encode())
    files = shared.shared_files("cache")
    assert [(file.name, file.bytes) for file in files] == [("cache/a/1", 9), ("cache/b/2", 9)]
    assert all(began - 2 < file.written < time.time() + 2 for file in files)
    assert shared.read_shared("cache/a/1") == b"cache/a/1"
    shared.remove_shared(["cache/a/1", "cache/gone"])
    assert set(in_shared_store()) == {"cache/b/2", "cached"}


def test_files_that_may_not_be_read_are_not_taken_for_missing(home, monkeypatch):
    class Closed(fsspec.AbstractFileSystem):
        def cat_file(self, path, **_):
            raise FileNotFoundError(path) if path.endswith("gone") else PermissionError("Access Denied")

    monkeypatch.setenv("DPCOST_STORE", "memory://x")
    monkeypatch.setattr(shared, "_folder", lambda address: Closed())
    assert shared.read_shared("gone") is None
    with pytest.raises(StoreError, match="Access Denied"):
        shared.read_shared("closed")


@pytest.mark.server
def test_a_bucket_that_is_not_there_is_one_sentence(home, s3_server, monkeypatch):
    for variable, value in s3_server.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("DPCOST_STORE", "s3://no-such-bucket/folder")
    with pytest.raises(StoreError, match="DPCOST_STORE=s3://no-such-bucket/folder"):
        shared.check_shared_store()


def test_a_prepared_table_is_found_by_a_home_that_lacks_it(in_shared_store, home, tmp_path, monkeypatch):
    from data.fetch.ingest import keep_reference, stored_table
    from data.store.references import DatasetRef, verified_path

    path = home / "store" / "parquet" / "t.parquet"
    atomic_write(path, b"a table")
    ref = DatasetRef("t", str(path), sha256_file(path), "", "", "", "store", "real", 1, 1)
    keep_reference(ref)
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "other"))
    other = tmp_path / "other" / "store" / "parquet" / "t.parquet"
    assert stored_table(other) == ref
    assert other.read_bytes() == b"a table"
    assert stored_table(other) == ref
    other.unlink()
    below = DatasetRef(**{**vars(ref), "path": "store/parquet/t.parquet"})
    assert verified_path(below) == Path(other)
    assert stored_table(other.with_name("u.parquet")) is None
    for damaged in (other, other.with_suffix(".json")):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-3])
        assert stored_table(other) == ref
        assert damaged.read_bytes() == whole
