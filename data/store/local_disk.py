"""Check that a folder is on a local disk, where file locks are reliable."""

from pathlib import Path

import psutil

from data.errors import StoreError

# Their locks may hold on one machine alone, or not at all, and a database file on them can be damaged.
NETWORK_TYPES = frozenset(
    (
        *("9p", "afp", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre"),
        *("nfs", "nfs3", "nfs4", "smb2", "smb3", "smbfs", "webdav"),
    )
)
LOCAL_FUSE = ("fuse.fuse-overlayfs", "fuse.overlayfs")  # what containers of ordinary users stand on


def require_local_disk(what: str, folder: Path) -> None:
    """Refuse a folder on a network file system.

    Parameters
    ----------
    what : str
        What names the folder, e.g. ``"DPCOST_HOME"``.
    folder : pathlib.Path
        It need not exist yet.

    Raises
    ------
    StoreError
        If so, with what to do.
    """
    found = _mount(folder)
    if found is None:
        return
    kind = found.fstype.lower()
    if kind in NETWORK_TYPES or (kind.startswith("fuse.") and kind not in LOCAL_FUSE):
        raise StoreError(
            f"{what} must lie on a disk of this machine, got {folder} on {found.fstype}: locks there do not "
            "keep machines apart, and databases can be damaged; set DPCOST_HOME to a local folder, and share "
            f"prepared data and results with DPCOST_STORE=file://{folder}"
        )


def _mount(folder: Path) -> "psutil._common.sdiskpart | None":
    """Return the mounted file system that a folder is on; of two at one place, the upper one."""
    whole, best = folder.resolve(), None
    for each in psutil.disk_partitions(all=True):
        if whole.is_relative_to(each.mountpoint) and (
            best is None or len(each.mountpoint) >= len(best.mountpoint)
        ):
            best = each
    return best
