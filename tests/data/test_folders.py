"""Files are written whole; a home is one account's own, and on a disk of this machine."""

import errno
import os
from collections import namedtuple
from pathlib import Path

import pytest

from data.errors import StoreError
from data.ledger import Ledger
from data.store import folders
from data.store.folders import require_local_disk, require_own_home
from flows import launch, lock
from tests.builders import refused


def failing(number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_arrives_whole_and_is_invisible_until_then(tmp_path):
    folders.atomic_write(tmp_path / "a" / "b", b"one")
    with folders.atomic_file(tmp_path / "a" / "b") as handle:
        handle.write(b"two")
        handle.flush()
        assert (tmp_path / "a" / "b").read_bytes() == b"one"
    assert (tmp_path / "a" / "b").read_bytes() == b"two"
    assert os.listdir(tmp_path / "a") == ["b"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission is denied")],
)
def test_a_full_or_forbidden_disk_is_one_sentence(tmp_path, monkeypatch, call, number, message):
    folders.atomic_write(tmp_path / "file", b"old")
    monkeypatch.setattr(folders.os, call, failing(number))
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


def test_a_home_that_another_account_uses_is_refused_and_a_free_one_is_taken(tmp_path, monkeypatch, home):
    name, mine = folders.account(os.getuid()), os.getuid()
    used(home)
    monkeypatch.setattr(folders.os, "geteuid", lambda: mine + 4242)
    for use in (
        lambda: require_own_home(home),
        lambda: used(home),
        lambda: lock.locked(home, "serve.lock", print).__enter__(),
        lambda: launch.launch(["housing"], {"workers": 1, "out": str(tmp_path)}),
    ):
        refused(use, StoreError, name, "DPCOST_HOME")
    for free in (tmp_path, tmp_path / "not there"):
        require_own_home(free)
    for owner in (mine, 0):
        monkeypatch.setattr(folders.os, "geteuid", lambda owner=owner: owner)
        require_own_home(home)


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
        for use in (
            lambda home=home: require_local_disk("HOME", home),
            lambda home=home: used(home),
            lambda home=home: lock.locked(home, "serve.lock", print).__enter__(),
            lambda home=home: Ledger(home).open_dataset("patients", 1.0, 1e-5),
        ):
            refused(use, StoreError, kind)
        assert not home.exists()
