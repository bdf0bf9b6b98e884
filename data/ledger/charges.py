"""What the ledger keeps, as frozen records: budgets, questions, costs, and charges with their holders."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from data.errors import LedgerError

MAX_NAME_LENGTH = 100
LARGEST_EXACT_INTEGER = 2**53
PENDING, RELEASED, LOST = "pending", "released", "lost"


@dataclass(frozen=True)
class TotalBudget:
    """The total privacy loss that the owner of a dataset allows for all that is ever released from it."""

    name: str
    epsilon: float
    delta: float
    opened: str  # UTC, ISO 8601


@dataclass(frozen=True)
class Question:
    """Everything that decides an answer. Two questions with the same `id` are the same."""

    dataset: str  # the name under which its budget was opened
    content: str  # the fingerprint of the data, in any order of rows
    estimator: str
    parameters: Mapping[str, Any]  # 1 and 1.0 are equal
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require_name("dataset", self.dataset)
        epsilon, delta = require_privacy(self.epsilon, self.delta)
        parameters = plain(self.parameters, "parameters", merge_numbers=True)
        for name, value in {"epsilon": epsilon, "delta": delta, "parameters": parameters}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def id(self) -> str:
        """The sha256 of everything that decides the answer, 64 hexadecimal digits."""
        return hashlib.sha256(canonical_json(asdict(self)).encode()).hexdigest()


@dataclass(frozen=True)
class PrivacyCost:
    """What an answer costs, known before it is drawn; ``facts`` are what its record says of it later."""

    rho: float  # of zero-concentrated differential privacy
    pure_epsilon: float = math.inf
    failure: float = 0.0  # a probability, which adds to delta
    unit: str = "row"
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The thread of a process that was charged, and alone may store the answer.

    The number of a process is used again; together with its start time and the boot of the machine it is not.
    """

    pid: int
    start_time: str  # in the system's own notation
    boot_id: str
    host: str
    thread: int

    @classmethod
    def here(cls) -> Holder:
        pid, thread = os.getpid(), threading.get_ident()
        return cls(
            pid=pid, start_time=start_time(pid), boot_id=_boot_id(), host=socket.gethostname(), thread=thread
        )

    @classmethod
    def of(cls, written: dict[str, Any]) -> Holder:
        return cls(**written["process"], thread=written["thread"])

    @property
    def written(self) -> dict[str, Any]:
        process = asdict(self)
        return {"thread": process.pop("thread"), "process": process}

    @property
    def is_remote(self) -> bool:
        """Whether it runs on another machine, where its state is unknown here."""
        return self.host != socket.gethostname()

    @property
    def is_this_process(self) -> bool:
        return replace(Holder.here(), thread=self.thread) == self

    def may_answer(self) -> bool:
        """Return whether another thread or process may still be drawing the answer.

        The asking thread itself is not: it would not ask. Of another machine nothing is known, so: yes.
        """
        if self.is_remote:
            return True
        if self.is_this_process:
            others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
            return self.thread in others
        return self.boot_id == _boot_id() and self.start_time == start_time(self.pid)


@dataclass(frozen=True)
class Charge:
    """One charge. Once returned by `Ledger.charge`, it is on the disk."""

    question: Question
    attempt: int  # how often the question was charged, this time included
    cost: PrivacyCost
    charged: str  # when; UTC, ISO 8601
    holder: Holder  # who was charged, and alone may store the answer
    state: str = PENDING
    answer: Mapping[str, Any] | None = None  # None: draw it now

    @property
    def id(self) -> str:
        return f"{self.question.id}-{self.attempt}"

    @property
    def epsilon(self) -> float:
        return self.question.epsilon


def start_time(pid: int) -> str:
    """Return when a process started; empty if it is gone or has exited and waits to be collected."""
    try:
        # The command name, in brackets, may itself hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def require_name(what: str, name: str) -> None:
    """Refuse a name that is empty, too long, padded with blanks or not visible."""
    if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise LedgerError(
            f"{what} must be 1 to {MAX_NAME_LENGTH} visible characters without blanks at the ends, "
            f"got {name!r}; choose another name"
        )


def require_privacy(epsilon: float, delta: float) -> tuple[float, float]:
    if not _is_real(epsilon) or not (math.isfinite(epsilon) and epsilon > 0):
        raise LedgerError(f"epsilon must be a positive finite number, got {epsilon!r}; pass e.g. epsilon=0.5")
    if not _is_real(delta) or not 0 <= delta < 1:
        raise LedgerError(f"delta must be at least 0 and below 1, got {delta!r}; pass e.g. delta=1e-6")
    return float(epsilon), float(delta)


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def canonical_json(value: object) -> str:
    """Return the one JSON text of a plain value: keys sorted, no blanks, ASCII, no NaN."""
    return _ENCODER.encode(value)


def plain(value: object, what: str, *, merge_numbers: bool = False) -> Any:
    """Return a value as JSON would give it back, or refuse what JSON cannot hold; the value is never quoted.

    With ``merge_numbers`` a whole float becomes an integer, so that equal numbers are written alike.
    """
    try:
        return json.loads(canonical_json(value), parse_float=_merged if merge_numbers else float)
    except (TypeError, ValueError):
        raise LedgerError(
            f"{what} must be made of mappings, lists, text and finite numbers; convert it, e.g. an array "
            "with .tolist()"
        ) from None


def _merged(digits: str) -> float | int:
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) <= LARGEST_EXACT_INTEGER else number


def _plain_scalar(value: Any) -> Any:
    if not isinstance(value, numbers.Real):
        raise TypeError
    return int(value) if isinstance(value, numbers.Integral) else float(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain_scalar)
