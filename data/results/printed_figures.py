"""The figures and tables that papers print, as a study's file declares what of its results repeats them."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

_AS_WRITTEN = ConfigDict(extra="forbid")


@pydantic_dataclass(frozen=True, config=_AS_WRITTEN)
class FigureLine:
    """A line of our run for a figure that a paper prints; what is left out is that of the figure."""

    estimator: str
    form: str = ""
    calibration: Literal["paper", "tight", "none"] = "none"
    panel: str = ""
    epsilon: float = 0.0  # 1,000 has next to no noise, as the papers' ε = ∞ has none
    label: str = ""  # the estimator's name if left out


@pydantic_dataclass(frozen=True, config=_AS_WRITTEN)
class PrintedFigure:
    """A figure or table that a paper prints, and what of a study repeats it.

    ``lines`` make our picture of it. With ``columns``, it is a table: each of the ``values`` of this quantity
    has a column. The paper's rows are ``printed``: a rule for δ, an ε and the entries. Without lines, no run
    repeats it, and ``differs`` says why.
    """

    paper: str  # a key of the papers in claims.toml
    name: str  # as the paper calls it: Figure 4b
    panel: str
    same_settings: bool  # whether all that the paper states is as it states it
    differs: str  # one sentence: what differs from the paper
    instead: str = ""  # the panel that takes the place of one whose data no source has
    epsilon: float = 0.0
    delta: str = ""
    metric: str = ""  # the page's if left out
    x_range: tuple[float, float] | None = None  # of sizes that the paper shows
    lines: tuple[FigureLine, ...] = ()
    columns: str = ""
    values: tuple[float, ...] = ()
    printed: tuple[tuple[str | float, ...], ...] = ()
    claims: tuple[str, ...] = ()  # the claims that say whether its shape is the same
    shape: str = ""  # why no claim does

    @property
    def file(self) -> str:
        """The name of its picture's file, without ending."""
        return self.name.lower().replace(" ", "-")
