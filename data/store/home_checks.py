"""Checks of a home: it is this account's own, and on a local disk, where file locks are reliable."""

import os
import pwd
from pathlib import Path

import psutil

from data.errors import StoreError

LOCK = "run.lock"  # the file that the first run of a home creates
# Their locks may hold on one machine alone, or not at all, and a database file on them can be damaged.
NETWORK_TYPES = frozenset(
    (
        *("9p", "afp", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre"),
        *("nfs", "nfs3", "nfs4", "smb2", "smb3", "smbfs", "webdav"),
    )
)
LOCAL_FUSE = ("fuse.fuse-overlayfs", "fuse.overlayfs")  # what containers of ordinary users stand on


def account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def require_own_home(home: Path) -> None:
    """Refuse a home that another account uses, with its ledger and passwords; root may use any."""
    try:
        owner = (home / LOCK).stat().st_uid
    except PermissionError:
        try:
            owner = home.stat().st_uid
        except OSError:
            return
    except OSError:  # nobody uses it yet, or it cannot be one
        return
    if os.geteuid() not in (0, owner):
        raise StoreError(
            f"DPCOST_HOME={home} is used by {account(owner)}, and one account alone may use a home, with its "
            "ledger and passwords; set DPCOST_HOME to a folder of your own, and share prepared data and "
            "results by DPCOST_STORE=file:///a/folder/of/both"
        )


def require_local_disk(what: str, folder: Path) -> None:
    """Refuse a folder on a network file system; it need not exist yet. ``what`` names it in the message."""
    whole = folder.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if whole.is_relative_to(each.mountpoint)]
    if not mounts:
        return
    # Of two at one place, the later one covers the other.
    found = max(reversed(mounts), key=lambda mount: len(mount.mountpoint))
    kind = found.fstype.lower()
    if kind in NETWORK_TYPES or (kind.startswith("fuse.") and kind not in LOCAL_FUSE):
        raise StoreError(
            f"{what} must lie on a disk of this machine, got {folder} on {found.fstype}: locks there do not "
            "keep machines apart, and databases can be damaged; set DPCOST_HOME to a local folder, and share "
            f"prepared data and results with DPCOST_STORE=file://{folder}"
        )
