import errno
import os

import pytest

from data.errors import DataError, StoreError
from data.store import folders as store


def failing(number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_arrives_whole_and_is_invisible_until_then(tmp_path):
    store.atomic_write(tmp_path / "a" / "b", b"one")
    with store.atomic_file(tmp_path / "a" / "b") as handle:
        handle.write(b"two")
        handle.flush()
        assert (tmp_path / "a" / "b").read_bytes() == b"one"
    assert (tmp_path / "a" / "b").read_bytes() == b"two"
    assert os.listdir(tmp_path / "a") == ["b"]


def test_an_error_of_the_writer_leaves_the_old_file(tmp_path):
    def write():
        with store.atomic_file(tmp_path / "file") as handle:
            handle.write(b"new")
            raise KeyboardInterrupt

    store.atomic_write(tmp_path / "file", b"old")
    with pytest.raises(KeyboardInterrupt):
        write()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission is denied")],
)
def test_a_full_or_forbidden_disk_is_one_sentence(tmp_path, monkeypatch, call, number, message):
    store.atomic_write(tmp_path / "file", b"old")
    monkeypatch.setattr(store.os, call, failing(number))
    with pytest.raises(StoreError, match=f"cannot write .*file: .*{message}") as caught:
        store.atomic_write(tmp_path / "file", b"new")
    assert isinstance(caught.value, DataError)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_in_the_way_of_a_folder_is_one_sentence(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        store.atomic_write(tmp_path / "a" / "b", b"")


def test_other_errors_are_passed_on(tmp_path, monkeypatch):
    monkeypatch.setattr(store.os, "fsync", failing(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        store.atomic_write(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == []


def test_home_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("DPCOST_HOME", raising=False)
    assert store.home() == store.PROJECT_ROOT / ".dpcost"
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "h"))
    assert store.home() == tmp_path / "h"
    assert store.store_dir(store.home()) == tmp_path / "h" / "store"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPCOST_HOME", "relative")
    assert store.home() == tmp_path / "relative"
