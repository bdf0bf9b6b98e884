"""The records of the ledger, frozen: budgets, questions, costs and charges."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from data.errors import LedgerError

MAX_NAME_LENGTH = 100
LARGEST_EXACT_INTEGER = 2**53
RESERVED, PENDING, RELEASED, RETURNED = "reserved", "pending", "released", "returned"


@dataclass(frozen=True)
class TotalBudget:
    """The total privacy loss that the owner of a dataset allows for all that is ever released from it."""

    name: str
    epsilon: float
    delta: float
    opened: str  # UTC, ISO 8601
    unit: str = ""  # the id column of the protected persons; "": the unit of the first charge


@dataclass(frozen=True)
class Question:
    """All inputs of a release. Two questions with the same `identity` are the same: they have one result."""

    dataset: str  # the name under which its budget was opened
    content: str  # the fingerprint of the data, in any order of rows and with numbers in single precision
    estimator: str
    parameters: Mapping[str, Any]  # in one form for all spellings; 1 and 1.0 are equal
    epsilon: float
    delta: float
    exact: str = ""  # the digest of all that the answer reads, bit by bit; questions of version 1.1 have none

    def __post_init__(self) -> None:
        require_name("dataset", self.dataset)
        epsilon, delta = require_privacy(self.epsilon, self.delta)
        parameters = plain(self.parameters, "parameters", merge_numbers=True)
        for name, value in {"epsilon": epsilon, "delta": delta, "parameters": parameters}.items():
            object.__setattr__(self, name, value)

    @property
    def request(self) -> dict[str, Any]:
        request = {name: getattr(self, name) for name in ("estimator", "parameters", "epsilon", "delta")}
        return request | ({"exact": self.exact} if self.exact else {})

    @cached_property
    def identity(self) -> str:
        """The sha256 of what is read and of the request, 64 hexadecimal digits.

        Columns of the table that are not read do not count. They decide only whose data they are.
        """
        read = self.request if self.exact else {"content": self.content, **self.request}
        return hashlib.sha256(canonical_json({"dataset": self.dataset, **read}).encode()).hexdigest()

    @cached_property
    def id(self) -> str:
        """The sha256 of all inputs with the whole table, by which a charge is stored."""
        content = {"dataset": self.dataset, "content": self.content, **self.request}
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()


@dataclass(frozen=True)
class PrivacyCost:
    """The cost of a release, known before it is drawn; ``facts`` appear in its record later."""

    rho: float  # of zero-concentrated differential privacy
    pure_epsilon: float = math.inf
    failure: float = 0.0  # a probability, which adds to delta
    unit: str = "row"
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Charge:
    """One charge. Once `Ledger.answering` yields it, it is on the disk."""

    question: Question
    attempt: int  # how often the question was charged, this time included
    cost: PrivacyCost
    charged: str  # when; UTC, ISO 8601
    answer: Mapping[str, Any] | None = None  # None: it is reserved, is being drawn, or was lost
    state: str = PENDING

    @property
    def id(self) -> str:
        return f"{self.question.id}-{self.attempt}"

    @property
    def epsilon(self) -> float:
        return self.question.epsilon

    @property
    def reserve(self) -> str:
        """The name of the reserve that it was charged as, or ""."""
        return str(self.cost.facts.get("reserve", ""))


@dataclass(frozen=True)
class Account:
    """A dataset's budget and all its charges, at one moment."""

    budget: TotalBudget
    charges: Sequence[Charge]  # reserved ones included, without reserves that were given back
    contents: Mapping[str, str]  # the dataset of each content that the ledger has charged
    head: str  # of the ledger


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

    With ``merge_numbers`` a whole float becomes an integer: equal numbers are written the same way.
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
