"""What a benchmark measured: figures with their goals, and the data that they are about."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure that was measured in some repetitions, and what is wanted of its median."""

    what: str
    values: Sequence[float]
    wanted: float
    at_least: bool = True  # whether more is better
    unit: str = "×"

    @property
    def wanted_words(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.wanted:g} {self.unit}".rstrip()

    @property
    def median(self) -> float:
        return float(np.median(self.values))

    @property
    def reached(self) -> bool:
        return self.median >= self.wanted if self.at_least else self.median <= self.wanted

    def cells(self) -> list[str]:
        low, high = np.quantile(self.values, (0.05, 0.95))
        interval = f"{low:.3g} … {high:.3g}" if len(self.values) > 1 else "once"
        return [
            self.what,
            f"{self.median:.3g} {self.unit}",
            f"{interval} ({len(self.values)})",
            self.wanted_words,
            "yes" if self.reached else "no",
        ]


def at_most(wanted: float, unit: str, what: str, *values: float) -> Goal:
    return Goal(what=what, values=values, wanted=wanted, at_least=False, unit=unit)


def shares_held(shares: Iterable[tuple[str, Any, float]]) -> list[Goal]:
    """Return a goal for each share in per cent of outcomes that held, where there are any."""
    return [
        Goal(what=what, values=[100 * float(np.mean(held))], wanted=wanted, unit="%")
        for what, held, wanted in shares
        if len(held)
    ]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one benchmark found: the result in words, its goals, and the data that it was measured on."""

    figure: str
    goals: list[Goal]
    data: str = "made-up numbers"
    facts: dict[str, str] = field(default_factory=dict)  # what the documentation quotes, by name


def write_facts(path: Path, facts: Mapping[str, str]) -> None:
    """Write what the documentation quotes by the role ``{evidence}``."""
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
