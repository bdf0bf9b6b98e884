"""The scorecard's page: every claim with its verdict and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reports.pages.text import render_html, render_markdown, template_text
from reports.writing import count_of, when

COLUMNS = {"paper": "with the noise as printed", "tight": "with the least noise that proves the same"}
VERDICTS = {1.0: "holds", 0.0: "fails"}
OPEN = "not tested"


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts."""

    id: str
    paper: str
    text: str
    where: str
    study: str
    has_run: bool  # whether the study's report can be linked to
    # Calibration → (1, 0 or NaN, the numbers behind it, why it was not tested if NaN).
    verdicts: Mapping[str, tuple[float, str, str]]

    def verdict(self, calibration: str) -> str:
        return VERDICTS.get(self.verdicts[calibration][0], OPEN)

    def why_open(self, calibration: str) -> str:
        """Say in few words why the claim was not tested; empty if it was."""
        value, _, why = self.verdicts[calibration]
        return "" if value in VERDICTS else why

    def reasons(self) -> Iterator[tuple[str, str]]:
        """Yield (for which noise, sentence), once where both are the same."""
        printed, tight = (self.verdicts[calibration][1] for calibration in COLUMNS)
        if printed == tight:
            yield "", printed
        else:
            yield "as printed", printed
            yield "tight", tight


@dataclass(frozen=True)
class ScorecardPage:
    """Everything on the scorecard; ``papers`` are names by key, in the order of the page."""

    title: str
    question: str
    papers: Mapping[str, str]
    judged: tuple[Judged, ...]
    command: str
    profile: str
    finished: str

    def of(self, paper: str) -> tuple[Judged, ...]:
        return tuple(judged for judged in self.judged if judged.paper == paper)


def tally(page: ScorecardPage) -> str:
    parts = [
        f"{label}, {holds} hold, {fails} fail and {still_open} are not tested"
        for label, ((*_, holds), (*_, fails), (*_, still_open)) in bars(page)
    ]
    return f"Of {count_of(len(page.judged), 'claim')}: {'; '.join(parts)}."


def bars(page: ScorecardPage) -> list[tuple[str, list[tuple[str, str, int]]]]:
    """Return for each kind of noise how many claims have which verdict, with a class for its color."""
    kinds = (("holds", "hold", VERDICTS[1.0]), ("fails", "fail", VERDICTS[0.0]), ("open", OPEN, OPEN))
    found = []
    for calibration, label in COLUMNS.items():
        verdicts = [judged.verdict(calibration) for judged in page.judged]
        found.append((label, [(kind, words, verdicts.count(verdict)) for kind, words, verdict in kinds]))
    return found


def render_scorecard(page: ScorecardPage) -> dict[str, bytes]:
    context: dict[str, Any] = {
        "page": page,
        "tally": tally(page),
        "columns": COLUMNS,
        "finished": when(page.finished),
        "bars": bars(page),
        "filters": {
            "verdict": ("Verdict, in either column", {words: words for words in (*VERDICTS.values(), OPEN)}),
            "paper": ("Paper", dict(page.papers)),
            "study": ("Study", {judged.study: judged.study for judged in page.judged}),
        },
    }
    scripts = [template_text("filter.js")]
    return {
        "report.html": render_html(
            "scorecard.html.jinja",
            f"{page.title}: what privacy costs",
            context["tally"],
            scripts=scripts,
            **context,
        ),
        "report.md": render_markdown("scorecard.md.jinja", **context),
    }
