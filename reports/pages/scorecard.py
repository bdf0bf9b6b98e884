"""The scorecard's page: every claim with its verdict and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reports.render import PageTable, Section, TableCell, render_page
from reports.writing import count_of, when

COLUMNS = {"paper": "with the paper’s calibration", "tight": "with the tight calibration"}
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
            yield "paper’s", printed
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
    """Say for each kind of noise how many claims hold, fail and are not tested."""
    parts = []
    for calibration, label in COLUMNS.items():
        verdicts = [judged.verdict(calibration) for judged in page.judged]
        holds, fails, still_open = (verdicts.count(each) for each in (*VERDICTS.values(), OPEN))
        parts.append(f"{label}, {holds} hold, {fails} fail and {still_open} are not tested")
    return f"Of {count_of(len(page.judged), 'claim')}: {'; '.join(parts)}."


_RULE = (
    "A claim holds or fails on the repetitions of a study at 99 % confidence; otherwise it is not tested "
    "here, and the table says why."
)


def render_scorecard(page: ScorecardPage) -> dict[str, bytes]:
    sections = [
        Section(
            name,
            table=PageTable(
                _HEAD, [_row(each) for each in page.of(key)], f"Claims of {name}", 4, stacked=True
            ),
        )
        for key, name in page.papers.items()
        if page.of(key)
    ]
    studies = sorted(
        {(judged.study, f"../{judged.study}/report.html") for judged in page.judged if judged.has_run}
    )
    if studies:
        sections.append(Section("Charts", links=studies))
    sections.append(Section("How do I run it again?", commands=[page.command]))
    html, markdown = render_page(
        f"{page.title}: what privacy costs",
        tally(page),
        sections,
        heading=page.title,
        links_on_top=[("All studies", "../index.html")],
        sentence=tally(page),
        lead=[
            page.question,
            ", ".join(filter(None, [f"Profile {page.profile}", when(page.finished)])),
            _RULE,
        ],
        search="claim, study or verdict",
        scripts=["filter.js"],
    )
    return {"report.html": html, "report.md": markdown}


_HEAD = ("Claim", "paper’s", "tight", "What the runs say")


def _row(judged: Judged) -> list[str | TableCell]:
    verdicts = [
        TableCell(
            judged.verdict(each), judged.why_open(each), "best" if judged.verdict(each) != OPEN else "missing"
        )
        for each in COLUMNS
    ]
    said = " ".join(f"{label}: {text}" if label else text for label, text in judged.reasons())
    source = judged.study if judged.has_run else f"to run it: dpcost run {judged.study}"
    return [TableCell(judged.text, judged.where), *verdicts, TableCell(said, source)]
