"""The index page: a card per study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd
from markupsafe import Markup

from reports.analysis.results import summarize
from reports.charts import svg
from reports.charts.picture import banner
from reports.layouts import layout_of
from reports.numbers import duration
from reports.page import StudyPage
from reports.pages.study import when
from reports.pages.text import html_environment, stylesheet, unbroken

CARD_FIGURE = "figures/card.svg"  # among the files of `render_study`: what `card_from` wants


@dataclass(frozen=True)
class Card:
    """A study on the index page.

    `when` is an ISO 8601 time, `seconds` the wall time (None where unknown), `href` relative to the index.
    """

    name: str
    title: str
    headline: str
    data_source: str
    when: str
    seconds: float | None
    figure_svg: str
    href: str
    profile: str

    def to_json(self) -> str:
        """Return the card as JSON, to be stored next to the study's report."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Card:
        return cls(**json.loads(text))


def card_from(page: StudyPage, results: pd.DataFrame, figure: bytes | str | None) -> Card:
    """Make a study's card.

    Parameters
    ----------
    page, results
        What `render_study` got.
    figure : bytes, str or None
        Its ``files.get(CARD_FIGURE)``.
    """
    summary = summarize(results)
    headline = layout_of(page).headline(summary, page)
    text = figure.decode("utf-8") if isinstance(figure, bytes) else figure or ""
    return Card(
        name=page.name,
        title=page.title,
        headline=headline.sentence,
        data_source=page.dataset.data_source,
        when=page.manifest.get("finished", ""),
        seconds=page.seconds,
        figure_svg=text,
        href=f"{page.name}/report.html",
        profile=page.manifest.get("profile", ""),
    )


def render_index(cards: Sequence[Card]) -> dict[str, bytes]:
    """Render the index page, cards by title.

    Returns
    -------
    dict of str to bytes
        `index.html`.
    """
    shown = [
        {
            "card": card,
            "figure": Markup(svg.inline(card.figure_svg, f"card{i}")) if card.figure_svg else "",
            "banner": banner(card.data_source),
            "when": when(card.when),
            "elapsed": duration(card.seconds),
        }
        for i, card in enumerate(sorted(cards, key=lambda c: (c.title, c.name)))
    ]
    text = html_environment().get_template("index.html.jinja").render(cards=shown, css=stylesheet())
    return {"index.html": unbroken(text).encode("utf-8")}
