"""Says whether a home is this account's own: its ledger, passwords and private results are one account's."""

import os
import pwd
from pathlib import Path

from data.errors import StoreError

LOCK = "run.lock"  # the file that the first run of a home creates


def account(uid: int) -> str:
    """Return the name of an account."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def require_own_home(home: Path) -> None:
    """Refuse a home that another account uses; root may use any.

    Raises
    ------
    StoreError
        If so, with what to do.
    """
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
