"""A figure as a report uses it, and the warning that goes on it."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from reports.charts import svg


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without ending, its alt text, its bytes (PNG where one is needed)."""

    name: str
    alt: str
    svg: bytes
    png: bytes | None = None


@dataclass(frozen=True)
class Shown:
    """A heading, computed sentences, and a picture or a table whose first `n_labels` columns are words.

    `answer` is what the page's own question is answered by, where that is no error: it stands on top.
    """

    heading: str
    text: str
    picture: Picture | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    n_labels: int = 0
    answer: str = ""


def banner(data_source: str, brief: bool = False) -> str:
    """Return the warning for the page and its figures; empty unless a stand-in was used."""
    if data_source == "stand-in":
        return "stand-in data" if brief else "STAND-IN DATA: simulated, not the real data set"
    return ""


def warned_picture(data_source: str, name: str, text: str, figure: Figure) -> Picture:
    """Return a figure as a picture, whose alt text begins with the warning that `banner` gives."""
    warning = banner(data_source)
    alt = f"{warning}. {text}" if warning else text
    return Picture(name, alt, svg.to_svg(figure, name, alt), svg.to_png(figure))
