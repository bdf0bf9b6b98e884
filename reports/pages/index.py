"""The index page: a card per study, and how errors of all studies on real data fall with ε."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, Line, guide, line_chart
from reports.cost import cost_at
from reports.headline import PageHeadline
from reports.page import StudyPage
from reports.pages.text import render_page
from reports.palette import look
from reports.series import View
from reports.writing import duration, render_sentence, times, when

_SOURCES = {"real": "real data", "stand-in": "stand-in, not the real data", "simulated": "simulated data"}

Text = Annotated[str, Field(max_length=10_000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]


def _moment(text: str) -> str:
    if text:
        datetime.fromisoformat(text)  # raises ValueError
    return text


@dataclass(frozen=True)
class Card:
    """A study on the index page.

    `when` is an ISO 8601 time, `seconds` the wall time (None where unknown), `href` relative to the index,
    `costs` has (ε, best private error over the one without privacy, standard error of that ratio) where the
    best private answer is clearly better than zero; `is_compared` says whether the index compares this
    study's errors. `value` is the number that the headline is about, with its standard error.
    """

    __pydantic_config__ = ConfigDict(extra="ignore")  # earlier versions knew more

    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,200}$")]
    title: Text
    headline: Text
    data_source: Text
    when: Annotated[str, AfterValidator(_moment)]
    seconds: Number | None
    href: Annotated[str, Field(pattern=r"^([a-z0-9_-]+/){1,2}report\.html$")]
    profile: Text
    figure: Annotated[str, Field(pattern=r"^(([a-z0-9_-]+/){1,2}figures/card\.svg)?$")] = ""
    warning: Text = ""
    kind: Text = ""
    datasets: Sequence[Text] = ()
    costs: Sequence[tuple[Positive, Positive, Number]] = ()
    is_compared: bool = False
    estimators: Sequence[Text] = ()
    value: float | None = None
    value_error: float | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    @classmethod
    def of(cls, page: StudyPage, headline: PageHeadline, figure: Picture | None, view: View) -> Card:
        source = page.source_of(str(page.headline["panel"]))
        measures_errors = page.layout == "error_page" and source == "real"
        is_compared = measures_errors and not page.warning
        return cls(
            name=page.name,
            title=page.title,
            headline=headline.sentence,
            data_source=source,
            when=page.manifest.get("finished", ""),
            seconds=page.seconds,
            figure=f"{page.name}/figures/card.svg" if figure else "",
            href=f"{page.name}/report.html",
            profile=page.manifest.get("profile", ""),
            warning=page.warning,
            kind=page.kind.replace("_", " "),
            datasets=[card.dataset.name for card in page.data_cards],
            costs=relative_errors(view) if is_compared else (),
            is_compared=is_compared,
            estimators=[info.title for info in page.estimators],
            value=headline.value,
            value_error=headline.value_error,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Card:
        """Read a card that anybody may have written; raise `ValueError` unless it is as declared here."""
        return TypeAdapter(cls).validate_json(text, strict=True)


def relative_errors(view: View) -> list[tuple[float, float, float]]:
    """Return by ε the least private error over the one without privacy, and its standard error.

    Errors are about a large population where that is known. An ε at which no private answer is clearly better
    than zero is left out.
    """
    where, m, found = view.headline, view.headline_size, []
    for each in view.settings:
        if where is None or m is None or (each.delta_rule, each.panel) != (where.delta_rule, where.panel):
            continue
        cost = cost_at(view, each, m)
        if cost.beats_zero and cost.can_be_learned and cost.factor > 0 and cost.ranking.best is not None:
            deviation = cost.factor * cost.deviation
            found.append((each.epsilon, float(f"{cost.factor:.4g}"), float(f"{deviation:.3g}")))
    return sorted(found)


def overview(cards: Sequence[Card]) -> Picture | None:
    """Draw the cost of privacy against ε, a line per study on real data."""
    shown = [card for card in cards if card.costs]
    if not shown:
        return None
    epsilons = sorted({epsilon for card in shown for epsilon, *_ in card.costs})
    lines = [
        Line(card.name, [(epsilon, ratio) for epsilon, ratio, _ in card.costs], look("private", i))
        for i, card in enumerate(shown)
    ]
    free = guide("privacy is free", [(epsilon, 1.0) for epsilon in epsilons])
    axes = Axes("ε", "times the error without privacy (lower is better)", epsilons)
    told = "; ".join(f"{card.name} {times(card.costs[-1][1])} at ε = {card.costs[-1][0]:g}" for card in shown)
    return draw_chart(
        line_chart([*lines, free], axes), "overview", render_sentence("overview", told=told), "", png=False
    )


def render_index(cards: Sequence[Card]) -> dict[str, bytes]:
    """Return ``index.html``, cards by title."""
    ordered = sorted(cards, key=lambda c: (c.title, c.name))
    shown = [
        {
            "card": card,
            "when": when(card.when),
            "elapsed": duration(card.seconds),
            "words": " ".join(
                (card.title, card.headline, card.name, *card.datasets, *card.estimators)
            ).lower(),
        }
        for card in ordered
    ]
    filters = {
        "dataset": ("Dataset", {name: name for card in ordered for name in card.datasets}),
        "estimator": (
            "Estimator",
            {name: name for name in sorted({e for card in ordered for e in card.estimators})},
        ),
        "kind": ("What is estimated", {card.kind: card.kind for card in ordered if card.kind}),
        "source": ("Data", {card.data_source: _SOURCES.get(card.data_source, "") for card in ordered}),
    }
    page, _ = render_page(
        "What privacy costs: all studies",
        "What privacy costs",
        template="index.html.jinja",
        scripts=["filter.js"],
        cards=shown,
        filters=filters,
        sources=_SOURCES,
        overview=overview(ordered),
        useless=[card for card in ordered if card.is_compared and not card.costs],
    )
    return {"index.html": page}
