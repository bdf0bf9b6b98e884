"""The figures and tables that the papers print: which study repeats each, and whether it looks the same."""

from collections.abc import Iterable, Mapping

from data.results.printed_figures import PrintedFigure
from reports.pages.scorecard import FigureRow
from tasks.papers import paper_names
from tasks.scorecard.claims import FAILS, HOLDS, NO_SUCH_ANSWER, Judgment
from tasks.study.spec import StudySpec

Verdicts = Mapping[str, Mapping[str, Judgment]]  # of claims by id, by calibration


def printed_figures(studies: Iterable[StudySpec], verdicts: Verdicts) -> list[FigureRow]:
    """Return a row for each printed figure that a study names, by paper and name."""
    order, rows = list(paper_names()), []
    for spec in studies:
        for figure in spec.figures:
            about = figure.paper, figure.name, spec.name, figure.panel, figure.same_settings, figure.differs
            rows.append(FigureRow(*about, *_shape(figure, verdicts)))
    return sorted(rows, key=lambda row: (order.index(row.paper), row.name))


def _shape(figure: PrintedFigure, verdicts: Verdicts) -> tuple[str, str]:
    """Return whether the claims about a figure hold at its calibration, and why not."""
    calibration = figure.lines[0].calibration if figure.lines else "tight"
    judged = [_at(calibration, verdicts[name]) for name in figure.claims if name in verdicts]
    if not judged:
        return "not tested", ""
    values = [verdict.value for verdict in judged]
    why = " ".join(verdict.text for verdict in judged if verdict.value != HOLDS)
    return "no" if FAILS in values else "yes" if set(values) == {HOLDS} else "not tested", why


def _at(calibration: str, verdicts: Mapping[str, Judgment]) -> Judgment:
    """Return the verdict at a calibration, or at the other one where the study has no estimate for it."""
    other = {"paper": "tight", "tight": "paper"}[calibration]
    missing = verdicts[calibration].why_open == NO_SUCH_ANSWER and verdicts[calibration].value != HOLDS
    return verdicts[other] if missing else verdicts[calibration]
