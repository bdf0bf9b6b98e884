import uuid
from pathlib import Path

import fsspec
import pytest

from data import shared_store
from data.data_errors import StoreError
from data.shared_store import bring, check_shared_store, read_shared, share, write_shared
from data.store import atomic_write, sha256_file


@pytest.fixture(params=["file", "memory", pytest.param("s3", marks=pytest.mark.server)])
def address(request, home, tmp_path, monkeypatch):
    """A shared store at an address of its own."""
    name = uuid.uuid4()
    at = {"file": f"file://{tmp_path}/shared", "memory": f"memory://{name}", "s3": f"s3://{name}/folder"}
    if request.param == "s3":
        s3 = request.getfixturevalue("s3_server")
        for variable, value in s3.items():
            monkeypatch.setenv(variable, value)
        fsspec.filesystem("s3", use_listings_cache=False).mkdir(str(name))
    monkeypatch.setenv("DPCOST_STORE", at[request.param])
    return at[request.param]


def stored(address):
    folder, root = fsspec.core.url_to_fs(address)
    return {path.removeprefix(root).lstrip("/"): folder.cat_file(path) for path in folder.find(root)}


def test_a_file_is_shared_under_its_name_and_comes_back(address, home):
    path = home / "cache" / "blocks" / "a.parquet"
    atomic_write(path, b"rows")
    digest = sha256_file(path)
    share(path)
    assert stored(address) == {"cache/blocks/a.parquet": b"rows"}
    path.unlink()
    assert bring(path, digest)
    assert path.read_bytes() == b"rows"


def test_what_is_not_there_or_something_else_is_not_brought(address, home):
    path = home / "cache" / "blocks" / "a.parquet"
    assert not bring(path, "0" * 64)
    write_shared("cache/blocks/a.parquet", b"half")
    assert not bring(path, "0" * 64)
    assert [each for each in path.parent.iterdir() if each.is_file()] == []
    assert read_shared("missing") is None


def test_what_lies_outside_the_home_is_not_shared(address, home, tmp_path):
    atomic_write(tmp_path / "report.html", b"x")
    share(tmp_path / "report.html")
    assert stored(address) == {}
    assert not bring(tmp_path / "report.html", "0" * 64)


def test_the_check_leaves_nothing_behind(address):
    check_shared_store()
    assert stored(address) == {}


def test_without_an_address_nothing_happens(home, monkeypatch):
    monkeypatch.delenv("DPCOST_STORE", raising=False)
    monkeypatch.setattr(shared_store, "_place", None)
    check_shared_store()
    share(home / "a")
    assert not bring(home / "a", "")
    assert read_shared("a") is None


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/a/folder", "must be an address such as s3://bucket/folder or file:///folder, got '/a/folder'"),
        ("nowhere://a", "DPCOST_STORE=nowhere://a is no address that can be used"),
        ("file:///proc/version/store", r"cannot (write|be used).*a file stands where a folder is needed"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence(home, monkeypatch, address, sentence):
    monkeypatch.setenv("DPCOST_STORE", address)
    with pytest.raises(StoreError, match=sentence) as caught:
        check_shared_store()
    assert "\n" not in str(caught.value)


@pytest.mark.server
def test_a_bucket_that_is_not_there_is_one_sentence(home, s3_server, monkeypatch):
    for variable, value in s3_server.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("DPCOST_STORE", "s3://no-such-bucket/folder")
    with pytest.raises(StoreError, match=r"DPCOST_STORE=s3://no-such-bucket/folder cannot be used: .*bucket"):
        check_shared_store()


def test_no_password_is_shown(home, monkeypatch):
    class Broken:
        protocol = "memory"

        def pipe_file(self, *_):
            raise PermissionError("Access Denied")

    monkeypatch.setenv("DPCOST_STORE", "ftp://me:secret@host/folder")
    monkeypatch.setattr(shared_store, "_place", lambda address: (Broken(), "/folder"))
    with pytest.raises(
        StoreError, match="DPCOST_STORE=ftp://host/folder cannot be used: Access Denied"
    ) as caught:
        check_shared_store()
    assert "secret" not in str(caught.value)


def test_a_prepared_table_is_found_by_a_home_that_lacks_it(address, home, tmp_path, monkeypatch):
    from data.ingest import keep_reference, stored_table
    from data.refs import DatasetRef, verified_path

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
