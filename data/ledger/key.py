"""The ledger's key: 32 random bytes in ``home/ledger.key`` that only their owner can read.

Fingerprints of the data are keyed with it. With a plain hash, a reader of the ledger could test guesses. If
one row is unknown, hashing every candidate table shows which one was charged. Below the key are the ledgers
that were written with it. A deleted one is noticed by that.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from data.errors import LedgerBroken, LedgerError
from data.store.folders import atomic_write, private_folder

KEY_BYTES = 32


@dataclass(frozen=True)
class Keys:
    """Keys that are derived from the ledger's key, one for each use; the id discloses nothing about it."""

    fingerprint: bytes
    id: str


def keys_of(digits: str) -> Keys:
    secret = bytes.fromhex(digits)
    if len(secret) != KEY_BYTES:
        raise ValueError
    fingerprint, number = (
        hmac.digest(secret, b"dpcost ledger: " + use, "sha256") for use in (b"fingerprint", b"id")
    )
    return Keys(fingerprint, number.hex()[:16])


def load_keys(home: Path, *, create: bool) -> Keys:
    """Return the keys of this home, or refuse one that is missing, damaged or readable by others.

    ``create`` draws a key if there is none; the caller excludes other processes.
    """
    path = home / "ledger.key"
    if create and not path.exists():
        write_key(path, secrets.token_hex(KEY_BYTES))
    try:
        mode = path.stat().st_mode
        keys = keys_of(path.read_text(encoding="utf-8").partition("\n")[0])
    except FileNotFoundError:
        raise LedgerError(
            f"{path} is missing, and the ledger cannot be read or written without it; restore it from a "
            "backup, or copy it from the machine that opened the ledger"
        ) from None
    except OSError as error:
        raise LedgerError(f"{path} cannot be read ({error.strerror}); make it readable to you") from None
    except ValueError:
        raise LedgerError(
            f"{path} is damaged; it must hold {2 * KEY_BYTES} hexadecimal digits: restore it"
        ) from None
    if mode & 0o077:
        raise LedgerError(
            f"{path} has mode {mode & 0o777:o} and must be 600: no other account may read it; "
            f"run chmod 600 {path}"
        )
    return keys


def was_used(home: Path, name: str) -> bool:
    """Say whether a ledger of this name was written with the key of this home."""
    return name in lines_of_key(home)[1:]


def mark_used(home: Path, name: str) -> None:
    """Note in the key's file that a ledger was written with it, once.

    Call it after the ledger's first transaction is on the disk. A process that is killed in between then
    leaves a ledger without a note, and never a note without a ledger.
    """
    if not was_used(home, name):
        # What was committed stands without the note, too; the next transaction writes it.
        with suppress(OSError), open(home / "ledger.key", "a", encoding="utf-8") as handle:
            handle.write(f"{name}\n")
            handle.flush()
            os.fsync(handle.fileno())


def require_unused(home: Path, name: str) -> None:
    """Refuse an empty ledger where, as the key says, one was written: charges are forgotten."""
    if was_used(home, name):
        raise LedgerBroken(
            f"{home / 'ledger.key'} was used for a ledger in {name}, and there is none: it was deleted, "
            "emptied or moved, and what was spent is not known; restore it from a backup (or move the "
            "key away, too, if these data were never answered about)"
        )


def lines_of_key(home: Path) -> list[str]:
    """Return the key's digits and the ledgers that it was used for; nothing if it cannot be read."""
    try:
        return (home / "ledger.key").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # `load_keys` says so where the key is needed
        return []


def write_key(path: Path, digits: str) -> None:
    """Write a key that only its owner can read."""
    private_folder(path.parent)
    atomic_write(path, f"{digits}\n".encode(), private=True)
