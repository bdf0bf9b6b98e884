"""Frozen records about a study that the task layer passes to its report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

ZERO = "zero"  # the estimator that answers zero without looking at the data


@dataclass(frozen=True)
class EstimatorInfo:
    """An estimator as a reader sees it.

    `order` is its stable number in the catalog, which decides its color on the whole site; `short` its name
    in figures and tables (`title` if empty); `settings` its public keywords in this study, a line per form;
    `is_sparse` says whether one of them is how few columns it keeps.
    """

    name: str
    title: str
    reference: str
    privacy_model: str
    unit: str
    neighbors: str
    public_inputs: tuple[str, ...]
    summary: str
    order: int
    short: str = ""
    settings: tuple[str, ...] = ()
    is_sparse: bool = False

    @property
    def label(self) -> str:
        return self.short or self.title


@dataclass(frozen=True)
class Guide:
    """A line of the theory: `value[i]` is the predicted error at size `n[i]`.

    It belongs to a panel, an ε and a rule for δ; to all of them where that is "" or 0.
    """

    label: str
    n: tuple[float, ...]
    value: tuple[float, ...]
    panel: str = ""
    epsilon: float = 0.0
    delta_rule: str = ""


@dataclass(frozen=True)
class Assumption:
    """An assumption about public facts: its name, value and source."""

    what: str
    value: str
    source: str


@dataclass(frozen=True)
class BudgetPart:
    """How one estimator splits its budget: (label, share) pairs; `form` "" where it has one only."""

    estimator: str
    form: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Provenance:
    """Where the data come from; `data_source` is "real", "stand-in" or "simulated"."""

    dataset: str
    title: str
    data_source: str
    n_rows: int = 0
    rows_read: int = 0
    repairs: tuple[tuple[str, int], ...] = ()  # reason, number of rows dropped or repaired
    source_url: str = ""
    source_sha256: str = ""
    license: str = ""
    citation: str = ""
    origin: str = ""
    privacy_unit: str = "one row"
    reasons: tuple[str, ...] = ()  # for a stand-in: a sentence per source that could not be reached
    simulated_too: str = ""  # what other panels simulate, where some have a dataset
    earlier: tuple[tuple[str, str], ...] = ()  # other contents of a file: sha256, end of the last run with it
    of_panels: tuple[tuple[str, str], ...] = ()  # panel, its data source

    def source_of(self, panel: str) -> str:
        return dict(self.of_panels).get(panel, self.data_source)


@dataclass(frozen=True)
class DataCard:
    """What is public about a dataset, and what happened to it on its way into the store.

    `columns` are (name, unit, public bounds, public scale, source of the bounds).
    """

    name: str
    title: str
    description: str
    privacy_unit: str
    data_source: str
    license: str
    citation: str
    source_url: str
    origin: str
    sha256: str
    table_sha256: str
    rows_read: int
    n_rows: int
    repairs: tuple[tuple[str, int], ...] = ()
    columns: tuple[tuple[str, str, str, str, str], ...] = ()
    checks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return f"data-{self.name}.html"


@dataclass(frozen=True)
class Finding:
    """A number about the data themselves, computed for research and not private.

    `drawn` findings become a thin horizontal line at `value` in the main figure; `about` heads their texts.
    Those of a `panel` stand in a table instead, with `floor`, below which no private mean error goes.
    """

    label: str
    value: float
    text: str
    research_only: bool = True
    drawn: bool = True
    about: str = "The data's own limit"
    panel: str = ""
    floor: float = math.nan


@dataclass(frozen=True)
class PrintedRow:
    """A number that a paper prints: rule for δ, ε (infinite: without privacy), s, mean and its spread."""

    delta_rule: str
    epsilon: float
    s: float
    mean: float
    spread: float


@dataclass(frozen=True)
class AttackFacts:
    """The facts about attacks that the results table does not hold, by cell and metric.

    `intervals` are at 95 %: of rates as if candidates were independent, of AUCs over data sets. `allowed` is
    the most that the certified (ε, δ) allows, `allowed_gaussian` the same where all releases of the cell are
    Gaussian; `exceeding` lists where the certificate is contradicted, all tests together at 99 % confidence.
    """

    rates: Mapping[str, float]  # metric → its false positive rate, ascending
    intervals: Mapping[tuple[str, str], tuple[float, float]]
    allowed: Mapping[tuple[str, str], float]
    allowed_gaussian: Mapping[tuple[str, str], float]
    exceeding: tuple[tuple[str, str], ...]
    predicted: Mapping[str, float]  # cell → the AUC that its error predicts, where the model is simple
    claimed_sums: Mapping[str, float]  # panel of known truth → the claimed sum of scores; NaN: a constant
    ceilings: tuple[Guide, ...]  # AUC against ε
    roc_ceilings: tuple[Guide, ...]  # true against false positive rate at the headline's ε


@dataclass(frozen=True)
class StudyPage:
    """Everything on a study's page that is not in the results table.

    `headline` has `epsilon`, `delta_rule`, `panel` and `n` (a value on the horizontal axis); where the table
    lacks that setting the nearest one is taken.
    """

    name: str
    title: str
    question: str
    dataset: Provenance
    estimators: tuple[EstimatorInfo, ...]
    headline: Mapping[str, Any]
    axis_label: str  # units included, without "lower is better", like metric_label
    metric: str
    metric_label: str
    panels_and_forms: Mapping[str, str] = field(default_factory=dict)  # name → its explanation
    guides: tuple[Guide, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    budgets: tuple[BudgetPart, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    unprotected_panels: tuple[str, ...] = ("paper",)  # whose preparation is not private
    panel_word: str = "preparation"  # what the panels differ in, or "panel" itself
    x_column: str = "n"  # on the horizontal axis; along "steps" an estimator without steps is a flat line
    x_symbol: str = "m"
    rows_symbol: str = "m"
    # Of which a size is a random part; 0: errors are no distances to it.
    population: tuple[int, str] = (0, "rows")
    printed: tuple[PrintedRow, ...] = ()  # what a paper prints, to be shown next to ours
    exhibits: Mapping[str, Any] = field(default_factory=dict)  # module of `reports.exhibits` → its content
    layout: str = "error_page"  # see `reports.pages.study.LAYOUTS`
    layout_facts: AttackFacts | None = None
    warning: str = ""  # stands above everything else
    measured: str = ""  # how an error comes about and what it is, in sentences
    data_cards: tuple[DataCard, ...] = ()
    risk: str = ""  # what the headline's guarantee lets an attacker learn, in a sentence
    kind: str = ""  # what is estimated: "mean", "linear_regression"
    about: str = ""  # the estimator that the page is about, whose line the chart always shows
    n_coefficients: int = 0  # whose signs are counted; 0: of none

    def estimator(self, name: str) -> EstimatorInfo:
        """Return the record of an estimator; an unlisted one is shown under its own name, last."""
        for info in self.estimators:
            if info.name == name:
                return info
        title = name.replace("_", " ")
        return EstimatorInfo(name, title, "", "", "", "", (), "", order=len(self.estimators) + 100)

    @property
    def seconds(self) -> float | None:
        """Wall time in seconds, or None where a time is missing."""
        begin, end = (self.manifest.get(name) for name in ("started", "finished"))
        if not (begin and end):
            return None
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
