"""What a benchmark measured: figures with their goals, and the data that they are about."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What was measured, again and again, and what is wanted of its median.

    Attributes
    ----------
    what : str
    values : sequence of float
        One for each repetition.
    wanted : float
    at_least : bool
        Whether more is better.
    unit : str
    """

    what: str
    values: Sequence[float]
    wanted: float
    at_least: bool = True
    unit: str = "×"

    @property
    def wanted_words(self) -> str:
        """Return what is wanted: "≤ 90 s"."""
        return f"{'≥' if self.at_least else '≤'} {self.wanted:g} {self.unit}".rstrip()

    @property
    def median(self) -> float:
        """Return the median of the repetitions."""
        return float(np.median(self.values))

    @property
    def reached(self) -> bool:
        """Return whether the median is where it is wanted."""
        return self.median >= self.wanted if self.at_least else self.median <= self.wanted

    def cells(self) -> list[str]:
        """Return the goal's line of a table: what, median, interval of the repetitions, wanted, reached."""
        low, high = np.quantile(self.values, (0.05, 0.95))
        interval = f"{low:.3g} … {high:.3g}" if len(self.values) > 1 else "once"
        return [
            self.what,
            f"{self.median:.3g} {self.unit}",
            f"{interval} ({len(self.values)})",
            self.wanted_words,
            "yes" if self.reached else "no",
        ]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one benchmark found.

    Attributes
    ----------
    figure : str
        The result in words.
    goals : list of Goal
    data : str
        What it was measured on: the dataset and whether it is real, or what was made up.
    details : dict
        Further numbers, for the JSON file.
    """

    figure: str
    goals: list[Goal]
    data: str = "made-up numbers"
    details: dict[str, Any] = field(default_factory=dict)
