"""The key of a cached result: a digest of its inputs, and of all the code that it depends on."""

import hashlib
import json
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from data.store.code_digest import code_digest
from tasks.faults import SpecError


@dataclass(frozen=True)
class CacheKey:
    """The name of a cached result, and which code made it."""

    name: str  # what it is, and 32 digits; the name of its record file
    modules: tuple[str, ...] = ()  # where its code begins
    of_page: bool = False  # whether it is a page, whose code includes templates
    sha256: str = ""  # of that code, where the key was made

    def __str__(self) -> str:
        return self.name

    def require_same_code(self) -> None:
        """Refuse to compute where other code is installed than where the key was made."""
        if self.sha256 and self.code()["sha256"] != self.sha256:
            raise SpecError(
                f"the worker on {socket.gethostname()} (process {os.getpid()}) has another version of the "
                "code, or of a library that computes, than the run; install it there and start it again"
            )

    def code(self) -> dict[str, Any]:
        sha256 = code_digest(self.modules, of_page=self.of_page)
        return {"modules": list(self.modules), "of_page": self.of_page, "sha256": sha256}


UNCACHED = CacheKey("uncached")  # of what is written without being kept in the cache


def cache_key(name: str, modules: Iterable[str], *inputs: Any, of_page: bool = False) -> CacheKey:
    """Return the key of a result: its kind, the code that some modules lead to, and plain inputs."""
    roots = tuple(sorted(set(modules)))
    sha256 = code_digest(roots, of_page=of_page)
    content = [name, inputs, sha256]
    blob = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return CacheKey(f"{name}-{hashlib.sha256(blob.encode()).hexdigest()[:32]}", roots, of_page, sha256)


def is_current(record: dict[str, Any]) -> bool:
    """Whether a stored record was made by the code as it is now."""
    code: Any = record.get("code")
    try:
        return bool(code["sha256"] == code_digest(code["modules"], of_page=code["of_page"]))
    except (TypeError, KeyError, OSError, SyntaxError):
        return False


def is_key(name: str) -> bool:
    return re.fullmatch(r"[a-z]+-[0-9a-f]{32}", name) is not None
