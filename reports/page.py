"""Frozen records about a study that the task layer passes to its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from data.dataset import Dataset
from data.results.table import PrintedFigure
from dpalgos.catalog import Estimator, get_estimator

ZERO = "zero"  # the zero baseline, which does not read the data


@dataclass(frozen=True)
class Guide:
    """A line of the theory: `value[i]` is the predicted error at size `n[i]`; flat where `n` is empty.

    It belongs to a panel, an ε and a rule for δ; to all of them where that is "" or 0.
    """

    label: str
    n: tuple[float, ...]
    value: tuple[float, ...]
    panel: str = ""
    epsilon: float = 0.0
    delta_rule: str = ""
    shown: bool = False  # whether a chart begins with it


@dataclass(frozen=True)
class DataCard:
    """A dataset's public record, and the manifest's entry about the table that a study read."""

    dataset: Dataset
    read: Mapping[str, Any]  # an entry of the manifest's "data"
    checked: bool = True  # whether the file passed the registry's checks: no stand-in, no analyst's table

    @property
    def file(self) -> str:
        return f"data-{self.dataset.name}.html"

    @property
    def repairs(self) -> list[Mapping[str, Any]]:
        """The repairs of rows, values and people: reason, count, what it counts, and what was done."""
        absent = {"reason": "no call", "what": "missing genotype", "done": "counted as one copy"}
        calls = self.read.get("missing_calls", 0)
        return [*self.read["repairs"], *([{**absent, "count": calls}] if calls else [])]


@dataclass(frozen=True)
class Section:
    """A part of a page: a macro of ``templates/sections.jinja``, and the values that it shows."""

    kind: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttackFindings:
    """Findings about attacks that the results table does not hold, by cell and metric.

    Intervals of rates treat candidates as independent; those of AUCs are over datasets. `exceeding` lists
    where the certificate is contradicted, at 99% confidence for all tests together.
    """

    intervals: Mapping[tuple[str, str], tuple[float, float]]  # at 95%
    allowed: Mapping[tuple[str, str], float]  # the maximum that the certified (ε, δ) allows
    allowed_gaussian: Mapping[tuple[str, str], float]  # the same where all releases are Gaussian
    exceeding: tuple[tuple[str, str], ...]
    predicted: Mapping[str, float]  # cell → the AUC that its error predicts, where the model is simple
    claimed_sums: Mapping[str, float]  # panel of known truth → the claimed sum of scores; NaN: a constant
    ceilings: tuple[Guide, ...]  # AUC against ε
    roc_ceilings: tuple[Guide, ...]  # true against false positive rate at the headline's ε


@dataclass(frozen=True)
class Axis:
    """The horizontal axis of a page's charts."""

    label: str  # units included, without "lower is better", like metric_label
    column: str = "n"  # along "steps" an estimator without steps is a flat line
    symbol: str = "m"
    rows_symbol: str = "m"  # of the number of rows, which need not be on the axis


@dataclass(frozen=True)
class StudyPage:
    """Everything on a study's page that is not in the results table.

    `headline` has `epsilon`, `delta_rule`, `panel` and `n` (a value on the horizontal axis); where the table
    lacks that setting the nearest one is taken. `sections` stand on the page in their order. Sections with a
    module of `reports.exhibits` are drawn and stand next to the results; the others follow them.
    """

    name: str
    title: str
    question: str
    estimators: tuple[Estimator, ...]
    headline: Mapping[str, Any]
    axis: Axis
    metric: str
    metric_label: str
    sections: tuple[Section, ...] = ()
    sparse: frozenset[str] = frozenset()  # estimators one of whose keywords is how few columns they keep
    guides: tuple[Guide, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    unprotected_panels: tuple[str, ...] = ("paper",)  # whose preparation is not private
    panel_word: str = "preparation"  # what the panels differ in, or "panel" itself
    # Of which a size is a random part; 0: errors are no distances to it.
    population: tuple[int, str] = (0, "rows")
    populations: Mapping[str, int] = field(default_factory=dict)  # of panels in which it is another
    without_signal: tuple[str, ...] = ()  # panels whose truth is no larger than chance explains
    layout: str = "error_page"  # see `reports.pages.study.LAYOUTS`
    beyond_errors: AttackFindings | Mapping[str, Any] | None = None  # what its layout shows beyond errors
    data_cards: tuple[DataCard, ...] = ()
    simulated: str = ""  # what is simulated, in some panels or in all
    panel_sources: Mapping[str, str] = field(default_factory=dict)  # panel → its data source
    about: str = ""  # the estimator that the page is about, whose line the chart always shows
    n_coefficients: int = 0  # whose signs are counted; 0: of none
    people: Mapping[tuple[str, int], int | None] = field(default_factory=dict)  # by panel and n; default: n
    full_sizes: Mapping[str, int] = field(default_factory=dict)  # panel → the largest n of the whole study
    figures: tuple[PrintedFigure, ...] = ()  # that papers print and this study repeats
    papers: Mapping[str, str] = field(default_factory=dict)  # key → name

    @property
    def warning(self) -> str:
        """The words above everything else; empty for public data."""
        return str(self.manifest.get("warning", ""))

    @property
    def data_source(self) -> str:
        """Return "stand-in" where any dataset is one, else "real", or "simulated" where there is none."""
        sources = {str(card.read["data_source"]) for card in self.data_cards}
        return "stand-in" if "stand-in" in sources else "real" if sources else "simulated"

    def population_of(self, panel: str) -> int:
        return self.populations.get(panel, self.population[0])

    def panel_title(self, panel: str) -> str:
        return f"{panel}: no signal" if panel in self.without_signal else panel

    def source_of(self, panel: str) -> str:
        return self.panel_sources.get(panel, self.data_source)

    def estimator(self, name: str) -> Estimator:
        """Return an estimator of the catalog; one that is not in it is shown under its own name, last."""
        for entry in self.estimators:
            if entry.name == name:
                return entry
        return replace(get_estimator(ZERO), name=name, title=name.replace("_", " "), summary="", order=10**6)


def seconds_of(manifest: Mapping[str, Any]) -> float | None:
    """Return a run's wall time, or None where a time is missing or the clock was set back meanwhile."""
    begin, end = (manifest.get(name) for name in ("started", "finished"))
    if not (begin and end):
        return None
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    return seconds if seconds >= 0 else None
