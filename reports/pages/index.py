"""The index page: a card per study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from markupsafe import Markup

from reports.charts.picture import Picture, inline
from reports.numbers import duration, when
from reports.page import StudyPage
from reports.pages.text import render_html
from reports.words.headline import PageHeadline


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
    def of(cls, page: StudyPage, headline: PageHeadline, figure: Picture | None) -> Card:
        return cls(
            name=page.name,
            title=page.title,
            headline=headline.sentence,
            data_source=page.dataset.data_source,
            when=page.manifest.get("finished", ""),
            seconds=page.seconds,
            figure_svg=figure.svg.decode() if figure else "",
            href=f"{page.name}/report.html",
            profile=page.manifest.get("profile", ""),
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Card:
        return cls(**json.loads(text))


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
            "figure": Markup(inline(card.figure_svg, f"card{i}")) if card.figure_svg else "",
            "when": when(card.when),
            "elapsed": duration(card.seconds),
        }
        for i, card in enumerate(sorted(cards, key=lambda c: (c.title, c.name)))
    ]
    title = "What privacy costs: all studies"
    return {"index.html": render_html("index.html.jinja", title, "What privacy costs", cards=shown)}
