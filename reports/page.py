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

    Attributes
    ----------
    order : int
        Stable number in the catalog; it decides the color on the whole site (see `palette`).
    short : str
        Name in figures and tables where `title` is too long; empty means `title`.
    settings : tuple of str
        Its public keywords in this study, a line per form.
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

    @property
    def label(self) -> str:
        """Name for figures and tables."""
        return self.short or self.title


@dataclass(frozen=True)
class Guide:
    """A line of the theory: `value[i]` is the predicted error at size `n[i]`; `panel` "": of every panel."""

    label: str
    n: tuple[float, ...]
    value: tuple[float, ...]
    panel: str = ""


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
    """Where the data come from.

    Attributes
    ----------
    data_source : {"real", "stand-in", "simulated"}
    repairs : tuple of (str, int)
        Reason and number of rows dropped or repaired.
    reasons : tuple of str
        Why a stand-in was used: one sentence per source that could not be reached.
    simulated_too : str
        What other panels simulate, where some have a dataset.
    earlier : tuple of (str, str)
        Other contents of a file that changed, which earlier runs read: sha256, and when their last ended.
    of_panels : tuple of (str, str)
        The data source of each panel, where panels differ.
    """

    dataset: str
    title: str
    data_source: str
    n_rows: int = 0
    rows_read: int = 0
    repairs: tuple[tuple[str, int], ...] = ()
    source_url: str = ""
    source_sha256: str = ""
    license: str = ""
    citation: str = ""
    origin: str = ""
    privacy_unit: str = "one row"
    reasons: tuple[str, ...] = ()
    simulated_too: str = ""
    earlier: tuple[tuple[str, str], ...] = ()
    of_panels: tuple[tuple[str, str], ...] = ()

    def source_of(self, panel: str) -> str:
        """Return the data source of a panel."""
        return dict(self.of_panels).get(panel, self.data_source)


@dataclass(frozen=True)
class Finding:
    """A number about the data themselves, computed for research and not private.

    `drawn` findings become a thin horizontal line at `value` in the main figure; `about` heads their texts.
    Those of a `panel` are told in a table instead, with `floor`, below which no private mean error goes.
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
    """The facts about attacks that the results table does not hold.

    Attributes
    ----------
    rates : mapping of str to float
        Metric → its false positive rate, ascending.
    intervals : mapping of (cell, metric) to (low, high)
        95 % intervals: of rates as if candidates were independent, of AUCs over data sets.
    allowed, allowed_gaussian : mapping of (cell, metric) to float
        The most that the certified (ε, δ) allows, and Gaussian differential privacy where all releases of
        the cell are Gaussian.
    exceeding : tuple of (cell, metric)
        Where the certificate is contradicted, all tests together at 99 % confidence.
    predicted : mapping of str to float
        Cell → the AUC predicted from its error, where the model is simple enough.
    claimed_sums : mapping of str to float
        Panel whose truth is known → what the paper claims of the sum of scores, over what an unbiased
        estimate gives; NaN where it claims no more than a constant.
    ceilings, roc_ceilings : tuple of Guide
        AUC against ε, and the true positive rate against the false positive rate at the headline's ε.
    """

    rates: Mapping[str, float]
    intervals: Mapping[tuple[str, str], tuple[float, float]]
    allowed: Mapping[tuple[str, str], float]
    allowed_gaussian: Mapping[tuple[str, str], float]
    exceeding: tuple[tuple[str, str], ...]
    predicted: Mapping[str, float]
    claimed_sums: Mapping[str, float]
    ceilings: tuple[Guide, ...]
    roc_ceilings: tuple[Guide, ...]


@dataclass(frozen=True)
class StudyPage:
    """Everything on a study's page that is not in the results table.

    Attributes
    ----------
    question : str
        What was asked, in two sentences.
    headline : mapping
        `epsilon`, `delta_rule`, `panel` and `n` (a value on the horizontal axis) of the headline; where the
        table lacks that setting the nearest one is taken.
    axis_label, metric_label : str
        Words for the size axis and the error axis, units included, without "lower is better".
    panels_and_forms : mapping of str to str
        Panel or form → its explanation in one or two sentences.
    unprotected_panels : tuple of str
        Panels whose preparation is not private.
    panel_word : str
        What the panels of this study differ in: "preparation", or "panel" itself.
    x_column, x_symbol : str
        The column on the horizontal axis and its symbol in sentences. Where it is ``"steps"``, an estimator
        without steps is drawn as a flat line.
    rows_symbol : str
        Symbol of the number of rows.
    population : (int, str)
        How many rows or users there are, of which a size is a random part, and which of the two; 0 where
        errors are no distances to the answer of all of them.
    printed : tuple of PrintedRow
        What a paper prints, to be shown beside ours.
    exhibits : mapping of str to anything
        What is shown beside the results: name of a module of `reports.exhibits` → its content.
    layout : str
        Which module of `reports.layouts` shows the page.
    layout_facts : AttackFacts or None
        What that layout shows beside the results table.
    warning : str
        What must be said above everything else.
    measured : str
        How an error comes about and what it is, in sentences.
    """

    name: str
    title: str
    question: str
    dataset: Provenance
    estimators: tuple[EstimatorInfo, ...]
    headline: Mapping[str, Any]
    axis_label: str
    metric: str
    metric_label: str
    panels_and_forms: Mapping[str, str] = field(default_factory=dict)
    guides: tuple[Guide, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    budgets: tuple[BudgetPart, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    unprotected_panels: tuple[str, ...] = ("paper",)
    panel_word: str = "preparation"
    x_column: str = "n"
    x_symbol: str = "m"
    rows_symbol: str = "m"
    population: tuple[int, str] = (0, "rows")
    printed: tuple[PrintedRow, ...] = ()
    exhibits: Mapping[str, Any] = field(default_factory=dict)
    layout: str = "error_page"
    layout_facts: AttackFacts | None = None
    warning: str = ""
    measured: str = ""

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
