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


@pytest.fixture
def be(monkeypatch):
    return lambda uid: monkeypatch.setattr(folders.os, "geteuid", lambda: uid)


ANOTHER = os.getuid() + 4242


def used(folder):
    with lock.exclusive_run(folder):
        return folder


def test_a_home_that_another_account_uses_is_refused_with_what_to_do(tmp_path, be, home):
    name = folders.account(os.getuid())
    used(home)
    be(ANOTHER)
    for use in (
        lambda: require_own_home(home),
        lambda: used(home),
        lambda: lock.locked(home, "serve.lock", print).__enter__(),
        lambda: launch.launch(["housing"], {"workers": 1, "out": str(tmp_path)}),
    ):
        refused(use, StoreError, name, "DPCOST_HOME")


def test_a_home_that_nobody_uses_yet_and_ones_own_are_taken_and_root_takes_any(tmp_path, be):
    be(ANOTHER)
    require_own_home(tmp_path)
    require_own_home(tmp_path / "not there")
    for owner in (os.getuid(), 0):
        be(owner)
        require_own_home(used(tmp_path))


Partition = namedtuple("Partition", "device mountpoint fstype opts")


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Mount something of a type at ``tmp_path/mnt``, as far as anybody asks."""

    def mount(kind):
        partitions = [
            Partition("/dev/vda", "/", "ext4", ""),
            Partition("server:/export", f"{tmp_path}/mnt", kind, ""),
            Partition("/dev/vdb", f"{tmp_path}/mnt/scratch", "xfs", ""),
        ]
        monkeypatch.setattr("psutil.disk_partitions", lambda all: partitions)
        return tmp_path / "mnt"

    return mount


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.s3fs", "9p", "lustre"])
def test_a_network_folder_is_refused_unless_a_disk_is_mounted_below(mounted, tmp_path, kind):
    folder = mounted(kind)
    refused(
        lambda: require_local_disk("HOME", folder / "home"), StoreError, "HOME", kind, "DPCOST_STORE=file:"
    )
    for disk in (folder / "scratch" / "home", tmp_path / "mnt-beside"):
        require_local_disk("HOME", disk)
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    refused(lambda: require_local_disk("HOME", tmp_path / "link" / "home"), StoreError)


@pytest.mark.parametrize("kind", ["ext4", "tmpfs", "overlay", "zfs", "fuseblk", "fuse.fuse-overlayfs"])
def test_a_disk_of_this_machine_is_taken(mounted, kind):
    require_local_disk("HOME", mounted(kind) / "home")


def test_nothing_that_rests_on_locks_works_on_a_network_folder(mounted):
    home = mounted("nfs4") / "home"
    for use in (lock.exclusive_run(home), lock.locked(home, "serve.lock", print)):
        with pytest.raises(StoreError, match="disk of this machine"), use:
            pass
    with pytest.raises(StoreError, match="the ledger must"):
        Ledger(home).open_dataset("patients", 1.0, 1e-5)
    assert not home.exists()
