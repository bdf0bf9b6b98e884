"""Files are written whole; a home is one account's own, on a disk of this machine; a store may be shared."""

import errno
import os
from collections import namedtuple
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest

from data.errors import StoreError
from data.fetch.ingest import keep_reference, stored_table
from data.ledger import Ledger
from data.store import folders, shared
from data.store.folders import atomic_write, require_local_disk, sha256_file
from data.store.references import DatasetRef, verified_path
from flows import lock
from flows.cli.ledger import ledger_open
from tests.builders import refused


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission is denied")],
)
def test_a_full_or_forbidden_disk_is_one_sentence(tmp_path, monkeypatch, call, number, message):
    folders.atomic_write(tmp_path / "file", b"old")
    monkeypatch.setattr(folders.os, call, Mock(side_effect=OSError(number, os.strerror(number))))
    refused(lambda: folders.atomic_write(tmp_path / "file", b"new"), StoreError, "file: ", message)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_and_its_new_name_are_on_the_disk_before_it_is_said_to_be_written(tmp_path, monkeypatch):
    flushed, sync = [], os.fsync

    def fsync(descriptor):
        flushed.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    folders.atomic_write(tmp_path / "a", b"content")
    assert len(flushed) == 2
    assert flushed[0].parent == tmp_path
    assert flushed[1] == tmp_path


def used(folder):
    with lock.exclusive_run(folder):
        return folder


def locking(folder):
    return partial(used, folder), lock.locked(folder, "serve.lock", print).__enter__


Partition = namedtuple("Partition", "device mountpoint fstype opts")

LOCAL = ["ext4", "tmpfs", "overlay", "zfs", "fuseblk", "fuse.fuse-overlayfs"]
NETWORK = ["nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.s3fs", "9p", "lustre"]


@pytest.mark.parametrize("kind", LOCAL + NETWORK)
def test_nothing_that_rests_on_locks_works_on_a_network_folder(tmp_path, monkeypatch, kind):
    """Unless a disk is mounted below."""
    mounts = {"/": "ext4", f"{tmp_path}/mnt": kind, f"{tmp_path}/mnt/scratch": "xfs"}
    partitions = [Partition("", place, each, "") for place, each in mounts.items()]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: partitions)
    (tmp_path / "link").symlink_to(tmp_path / "mnt")
    for disk in ("mnt/scratch/home", "mnt-beside", *["mnt/home"] * (kind in LOCAL)):
        require_local_disk("HOME", tmp_path / disk)
    for folder in () if kind in LOCAL else ("mnt", "link"):
        home = tmp_path / folder / "home"
        opened = partial(Ledger(home).open_dataset, "patients", 1.0, 1e-5)
        for use in (partial(require_local_disk, "HOME", home), opened, *locking(home)):
            refused(use, StoreError, kind)
        assert not home.exists()


@pytest.mark.parametrize(("kind", "noted"), [("tmpfs", True), ("ramfs", True), ("ext4", False)])
def test_a_ledger_in_memory_is_opened_with_a_note_that_it_does_not_last(
    tmp_path, monkeypatch, capsys, kind, noted
):
    """A restart of the machine or container would lose the charges, and a new budget would be opened."""
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("psutil.disk_partitions", lambda all: [Partition("", str(tmp_path), kind, "")])
    ledger_open("patients", 1.0, 1e-5)
    assert ("in memory" in capsys.readouterr().out) == noted


def test_a_file_of_the_home_is_shared_under_its_name_and_comes_back(in_shared_store, home, tmp_path):
    shared.check_shared_store()
    path = home / "cache" / "blocks" / "a.parquet"
    for each in (path, tmp_path / "report.html"):
        atomic_write(each, b"rows")
        shared.share(each)
    digest = sha256_file(path)
    assert in_shared_store() == {"cache/blocks/a.parquet": b"rows"}
    path.unlink()
    assert shared.copy_shared(path, digest)
    assert path.read_bytes() == b"rows"
    assert not shared.copy_shared(tmp_path / "report.html", digest)


def test_what_is_not_there_or_something_else_is_not_brought(in_shared_store, home):
    path = home / "cache" / "blocks" / "a.parquet"
    assert not shared.copy_shared(path, "0" * 64)
    shared.write_shared("cache/blocks/a.parquet", b"half")
    assert not shared.copy_shared(path, "0" * 64)
    assert [each for each in path.parent.iterdir() if each.is_file()] == []
    assert shared.read_shared("missing") is None


def test_files_that_may_not_be_read_are_not_taken_for_missing(home, monkeypatch):
    class Closed(fsspec.AbstractFileSystem):
        def cat_file(self, path, **_):
            raise FileNotFoundError(path) if path.endswith("gone") else PermissionError("Access Denied")

    monkeypatch.setenv("DPCOST_STORE", "memory://x")
    monkeypatch.setattr(shared, "_folder", lambda address: Closed())
    assert shared.read_shared("gone") is None
    refused(lambda: shared.read_shared("closed"), StoreError, "Access Denied")


@pytest.mark.server
def test_a_bucket_that_is_not_there_is_one_sentence(home, bucket, monkeypatch):
    monkeypatch.setenv("DPCOST_STORE", "s3://no-such-bucket/folder")
    refused(shared.check_shared_store, StoreError, "DPCOST_STORE=s3://no-such-bucket/folder")


def test_a_prepared_table_is_found_by_a_home_that_lacks_it(in_shared_store, home, tmp_path, monkeypatch):
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
    below = replace(ref, path="store/parquet/t.parquet")
    assert verified_path(below) == Path(other)
    assert stored_table(other.with_name("u.parquet")) is None
    for damaged in (other, other.with_suffix(".json")):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-3])
        assert stored_table(other) == ref
        assert damaged.read_bytes() == whole
