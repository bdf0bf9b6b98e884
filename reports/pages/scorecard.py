"""The scorecard's page: every claim with its verdict and evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.render import SCRIPT, Bar, PageTable, TableCell, render_page
from reports.writing import render_sentence, words

VERDICTS = {1.0: "holds", 0.0: "fails"}
OPEN = "not tested"
_CALIBRATIONS = {"paper": "their own", "tight": "the tight"}
FIGURE_COLUMNS = ("Printed", "Study, panel", "Same settings?", "Same shape?", "What differs")


@dataclass(frozen=True)
class Judged:
    """A claim of a paper with its verdicts."""

    paper: str
    text: str
    where: str
    study: str
    has_run: bool  # whether the study's report can be linked to
    # By calibration: value (1, 0 or NaN), text (the numbers behind it), and why_open (if it is NaN).
    verdicts: Mapping[str, Any]


@dataclass(frozen=True)
class FigureRow:
    """A figure or table that a paper prints, and what repeats it."""

    paper: str
    name: str
    study: str
    panel: str
    same_settings: bool
    differs: str  # what differs from the paper
    shape: str = "not tested"  # or "yes" or "no"
    why: str = ""  # why its shape is not the same, or not known to be

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        settings, where = "yes" if self.same_settings else "no", f"{self.study}, {self.panel}"
        printed, differs = f"{self.paper}, {self.name}", f"{self.differs} {self.why}".strip()
        return printed, where, settings, self.shape, differs


def tally(judged: Sequence[Judged]) -> str:
    """Say for each calibration how many claims hold and fail."""
    return render_sentence("tally", n=len(judged), found=_counts(judged))


def _counts(judged: Sequence[Judged]) -> list[tuple[str, int, int, int]]:
    """Return how many claims hold, fail and are not tested, by calibration."""
    counts = []
    for name, label in _CALIBRATIONS.items():
        verdicts = [_verdict(each.verdicts[name]) for each in judged]
        holds, fails = (verdicts.count(each) for each in VERDICTS.values())
        counts.append((label, holds, fails, verdicts.count(OPEN)))
    return counts


def _bars(judged: Sequence[Judged]) -> list[Bar]:
    return [
        Bar(f"{label} calibration", [("holds", holds), ("fails", fails), ("open", left)], f"{holds}",
            f"hold, {fails} fail, {left} are not tested")
        for label, holds, fails, left in _counts(judged)
    ]  # fmt: skip


def _by_paper(of_papers: Mapping[str, Sequence[Judged]]) -> PageTable:
    """Return for each paper how many claims hold and fail, by calibration."""
    rows = []
    for name, judged in of_papers.items():
        numbers = [n for _, holds, fails, _ in _counts(judged) for n in (holds, fails)]
        verdicts = [{_verdict(each) for each in one.verdicts.values()} for one in judged]
        rows.append([name, *map(str, (*numbers, verdicts.count({OPEN})))])
    heads = [f"{verb}, {label} calibration" for label in _CALIBRATIONS.values() for verb in ("hold", "fail")]
    return PageTable(("Paper", *heads, "not tested with either"), rows, "Claims by paper")


def _failing(judged: Sequence[Judged]) -> list[str]:
    """Return each claim that fails with a calibration, and with which."""
    sentences = []
    for each in judged:
        fails = [
            label for name, label in _CALIBRATIONS.items() if _verdict(each.verdicts[name]) == VERDICTS[0.0]
        ]
        if fails:
            sentences.append(f"{each.text} ({each.where}; with {words(fails)} calibration)")
    return sentences


def _verdict(judgment: Any) -> str:
    return VERDICTS.get(judgment.value, OPEN)


def render_scorecard(
    title: str,
    question: str,
    papers: Mapping[str, str],
    judged: Sequence[Judged],
    figures: Sequence[FigureRow],
    command: str,
    ran: str,
    *,
    without_figures: Sequence[str],
    trial: str,
) -> dict[str, bytes]:
    """Return the page; ``papers`` are names by key, in the order of the page, ``ran`` says when and how.

    ``figures`` are those that the papers print. ``trial`` is the banner where a study ran at profile smoke.
    """
    of_papers = {name: [each for each in judged if each.paper == key] for key, name in papers.items()}
    of_papers = {name: claims for name, claims in of_papers.items() if claims}
    html, markdown = render_page(
        "pages/scorecard.jinja",
        name=title,
        question=question,
        ran=ran,
        trial=trial,
        without_figures=without_figures,
        letters=[f"{key}: {papers[key]}" for key in dict.fromkeys(each.paper for each in figures)],
        command=command,
        tally=tally(judged),
        bars=_bars(judged),
        papers=_by_paper(of_papers),
        failing=_failing(judged),
        claims={name: [_row(each) for each in claims] for name, claims in of_papers.items()},
        figures=PageTable(
            FIGURE_COLUMNS, [each.cells for each in figures], "Printed figures", 5, stacked=True
        ),
        studies=sorted({(each.study, f"../{each.study}/report.html") for each in judged if each.has_run}),
        script=f"../{SCRIPT}",
    )
    return {"report.html": html, "report.md": markdown}


def _row(judged: Judged) -> list[str | TableCell]:
    verdicts = [judged.verdicts[name] for name in _CALIBRATIONS]
    cells = [
        TableCell(_verdict(each), *(("", "best") if each.value in VERDICTS else (each.why_open, "missing")))
        for each in verdicts
    ]
    labels = [f"{label}: " for label in _CALIBRATIONS.values()]
    texts = dict.fromkeys(each.text for each in verdicts)  # one where both are the same
    findings = " ".join(
        label + text for label, text in zip(labels if len(texts) > 1 else [""], texts, strict=True)
    )
    source = judged.study if judged.has_run else f"to run it: dpcost run {judged.study}"
    return [TableCell(judged.text, judged.where), *cells, TableCell(findings, source)]
