"""The page of a study that measures attacks: its panels and lines, figures, sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import pandas as pd

from dpalgos.catalog import Estimator
from reports.charts.drawing import Picture, can_draw, draw_chart
from reports.charts.lines import NARROW, Axes, Line, guide, line_chart
from reports.charts.study import Pictures, StudyChart, certified_picture, slug
from reports.headline import PageHeadline, Tile, data_sentence
from reports.page import AttackFacts, Guide, StudyPage
from reports.pages.error_page import LayoutContent, numbers_section
from reports.palette import LIMIT_DASH, SOLID, ZERO_DOTS, Look, look, slot
from reports.results import AUC, POOLED_AUC
from reports.series import BRIEF_WORDS, CALIBRATION_WORDS, View, comma, nearest_value
from reports.table import PageTable, Section, TableCell
from reports.writing import error_bar, num, render_sentence, rule_text, setting

SUM_RATIO = "attack_sum_ratio"
CHANCE = 0.5
_CEILING_DASHES = (SOLID, LIMIT_DASH)
_LOWEST_RATE = 1e-3
SHOWN_RATES = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class AttackCell:
    """A cell: ε (NaN without privacy), and mean and standard error of each metric."""

    cell: str
    epsilon: float
    means: dict[str, tuple[float, float]]

    def mean(self, metric: str) -> float:
        """Return a metric's mean; NaN where it was not measured or not resolved."""
        return self.means.get(metric, (math.nan, math.nan))[0]

    def with_error(self, metric: str) -> str:
        mean, error = self.means.get(metric, (math.nan, math.nan))
        return f"{num(mean)} ± {error_bar(error, mean)}" if error > 0 else num(mean)


@dataclass(frozen=True)
class AttackLine:
    """An estimator with its calibration at one panel and size; one cell without privacy, else one per ε."""

    info: Estimator
    calibration: str
    form: str
    cells: tuple[AttackCell, ...]

    @property
    def private(self) -> bool:
        return self.calibration != "none"

    @property
    def brief(self) -> str:
        return comma(self.info.title, self.form, BRIEF_WORDS.get(self.calibration))

    @property
    def label(self) -> str:
        return comma(self.info.title, self.form, CALIBRATION_WORDS.get(self.calibration))

    def at(self, epsilon: float) -> AttackCell | None:
        """Return the cell at an ε; the only one without privacy."""
        return next((c for c in self.cells if not self.private or c.epsilon == epsilon), None)


@dataclass(frozen=True)
class AttackPanel:
    """A panel at one size."""

    name: str
    n: int
    d: int
    lines: tuple[AttackLine, ...]

    @property
    def title(self) -> str:
        return f"{self.name}: n = {self.n:,}, d = {self.d:,}"

    @cached_property
    def without_privacy(self) -> AttackCell | None:
        """The non-private cell that is attacked best."""
        cells = [line.cells[0] for line in self.lines if not line.private]
        return max(cells, key=lambda c: c.mean(AUC), default=None)

    def best_private(self, epsilon: float) -> tuple[AttackLine, AttackCell] | None:
        """Return the private line that is attacked best at an ε."""
        pairs = [(line, cell) for line in self.lines if line.private and (cell := line.at(epsilon))]
        pairs = [pair for pair in pairs if math.isfinite(pair[1].mean(AUC))]
        return max(pairs, key=lambda pair: pair[1].mean(AUC), default=None)


@dataclass(frozen=True)
class AttackView:
    """The panels of a study, the headline's first, each at its sizes, the nearest to the headline's first."""

    page: StudyPage
    facts: AttackFacts
    epsilon: float
    rule: str
    panels: tuple[AttackPanel, ...]

    @classmethod
    def build(cls, summary: pd.DataFrame, page: StudyPage) -> AttackView:
        assert page.layout_facts is not None
        head = page.headline
        asked = float(head["epsilon"])
        epsilon = nearest_value(summary["epsilon"].dropna(), asked) or asked
        panels = []
        for name in sorted(summary["panel"].unique(), key=lambda name: name != head["panel"]):
            rows = summary[summary["panel"] == name]
            for n in sorted(rows["n"].unique(), key=lambda n: (abs(math.log(n / head["n"])), n)):
                panels.append(_panel(page, name, rows[rows["n"] == n]))
        return cls(page, page.layout_facts, epsilon, str(head["delta_rule"]), tuple(panels))

    @property
    def head(self) -> AttackPanel | None:
        return self.panels[0] if self.panels else None

    @property
    def heads(self) -> tuple[AttackPanel, ...]:
        """Every panel at the size nearest to the headline's."""
        first: dict[str, AttackPanel] = {}
        for panel in self.panels:
            first.setdefault(panel.name, panel)
        return tuple(first.values())


def _panel(page: StudyPage, name: str, rows: pd.DataFrame) -> AttackPanel:
    lines = []
    for (estimator, calibration, form), cells in rows.groupby(
        ["estimator", "calibration", "form"], sort=False
    ):
        found = [
            AttackCell(
                str(cell),
                float(metrics["epsilon"].iloc[0]),
                dict(zip(metrics["metric"], zip(metrics["mean"], metrics["se"], strict=True), strict=True)),
            )
            for cell, metrics in cells.groupby("cell", sort=False)
        ]
        ordered = tuple(sorted(found, key=lambda cell: cell.epsilon))
        lines.append(AttackLine(page.estimator(str(estimator)), str(calibration), str(form), ordered))
    order = ("tight", "paper", "none")
    lines.sort(key=lambda line: (not line.private, line.info.order, line.form, order.index(line.calibration)))
    first = rows.iloc[0]
    return AttackPanel(name, cast(int, first["n"]), cast(int, first["d"]), tuple(lines))


def draw_attacks(view: View, attacks: AttackView, summary: pd.DataFrame) -> Pictures:
    head, where = attacks.head, view.headline
    if head is None or where is None:
        return Pictures()
    source, text = view.page.source_of(head.name), _auc_text(attacks, head)
    chart = StudyChart.build(view, summary)
    lines = [
        *(series.brief for series in view.series(where)),
        *dict.fromkeys(g.label for g in view.page.guides),
    ]
    return Pictures(
        draw_chart(chart.of_lines(lines), "main", text, source, title=head.title),
        draw_chart(chart.of_lines(lines, width=NARROW, height=230), "card", text, source, png=False),
        certified_picture(view),
        tuple(_roc(attacks, panel) for panel in attacks.heads),
        chart.with_menus(lines) if can_draw() else None,
        chart.left_out,
    )


def _auc_text(view: AttackView, panel: AttackPanel) -> str:
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    text = f"AUC of the attack against ε, {panel.title}."
    text += f" Without privacy {num(other.mean(AUC))}." if other else ""
    highest = f" At ε = {setting(view.epsilon)} the highest is {num(best[1].mean(AUC))}." if best else ""
    return text + highest


def _roc(view: AttackView, panel: AttackPanel) -> Picture:
    rates = view.facts.rates
    lines, reached = [], []
    for line in panel.lines:
        cell = line.at(view.epsilon)
        points = [(rates[m], cell.mean(m)) for m in rates if cell.mean(m) > 0] if cell else []
        if points:
            lines.append(Line(line.brief, [*points, (1.0, 1.0)], replace(_look(line), shape="")))
            reached.append(f"{line.label} {num(points[0][1])} at {setting(points[0][0])}")
    ends = (_LOWEST_RATE, 1.15)
    names = "false positive rate", "true positive rate"
    axes = Axes(*names, x_range=ends, y_range=(math.log10(_LOWEST_RATE), 0.06), width=480, height=280)
    diagonal = guide("", [(_LOWEST_RATE, _LOWEST_RATE), (1.0, 1.0)], ZERO_DOTS)
    lines += [diagonal, *_ceilings(view.facts.roc_ceilings, panel)]
    text = f"ROC curves on log axes, {panel.title}. True positive rates: {'; '.join(reached)}."
    key = slug(f"roc-{panel.name}-{panel.n}")
    source = view.page.source_of(panel.name)
    return draw_chart(line_chart(lines, axes), key, text, source, title=panel.title)


def _ceilings(guides: Sequence[Guide], panel: AttackPanel) -> list[Line]:
    own = [each for each in guides if each.panel == f"{panel.name}:{panel.n}"]
    return [
        guide(each.label, list(zip(each.n, each.value, strict=True)), dash)
        for each, dash in zip(own, _CEILING_DASHES, strict=False)
    ]


def _look(line: AttackLine) -> Look:
    role = "private" if line.private else "nonprivate"
    return look(role, line.info.order, calibration=line.calibration)


def sum_table(view: AttackView) -> PageTable | None:
    """Return the sums of the panels whose truth is known: without privacy, and at the largest ε.

    Members' scores are summed, over what Stein's identity gives: measured, and claimed where that differs.
    """
    rows = []
    for panel in view.heads:
        if panel.name not in view.facts.claimed_sums:
            continue
        claimed = view.facts.claimed_sums[panel.name]
        for line in panel.lines:
            cell = line.cells[-1]
            said = num(claimed) if math.isfinite(claimed) else "a constant"
            rows.append((panel.title, line.label, _epsilon(line, cell), cell.with_error(SUM_RATIO), said))
    columns = ("Panel", "Estimator", "ε", "measured", "claimed, at least a multiple of")
    return PageTable(columns, rows, "Sums of scores", 2) if rows else None


def attack_table(view: AttackView, panel: AttackPanel) -> PageTable:
    """Return the attacks on a panel, a row per estimator and ε."""
    rates = {metric: rate for metric, rate in view.facts.rates.items() if rate in SHOWN_RATES}
    metrics = sorted(rates, key=lambda metric: -rates[metric])
    named = (f"TPR at FPR {setting(rates[metric])}" for metric in metrics)
    rows: list[tuple[str | TableCell, ...]] = [
        (
            TableCell(
                line.label,
                slot=slot(line.info.order) if line.private else None,
                hollow=line.calibration == "paper",
            ),
            _epsilon(line, cell),
            TableCell(cell.with_error(AUC), _predicted(view, cell)),
            *(_value(view, cell, metric) for metric in (POOLED_AUC, *metrics)),
            cell.with_error(SUM_RATIO),
        )
        for line in panel.lines
        for cell in line.cells
    ]
    return PageTable(("Estimator", "ε", "AUC", "pooled AUC", *named, "sum of scores"), rows, panel.title)


def _epsilon(line: AttackLine, cell: AttackCell) -> str:
    return setting(cell.epsilon) if line.private else "∞"


def _predicted(view: AttackView, cell: AttackCell) -> str:
    value = view.facts.predicted.get(cell.cell, math.nan)
    return f"predicted {num(value)}" if math.isfinite(value) else ""


def _value(view: AttackView, cell: AttackCell, metric: str) -> TableCell:
    """Write a number with its interval and its bounds."""
    mean = cell.mean(metric)
    if not math.isfinite(mean):
        return TableCell("not resolved", kind="missing")
    low, high = view.facts.intervals.get((cell.cell, metric), (math.nan, math.nan))
    allowed = view.facts.allowed.get((cell.cell, metric), math.nan)
    gaussian = view.facts.allowed_gaussian.get((cell.cell, metric), math.nan)
    parts = [f"{num(low)} to {num(high)}"] if math.isfinite(low) else []
    parts += [f"≤ {num(allowed)}"] if math.isfinite(allowed) else []
    parts += [f"Gaussian {num(gaussian)}"] if math.isfinite(gaussian) else []
    return TableCell(num(mean), ", ".join(parts))


def attack_headline(view: AttackView) -> PageHeadline:
    data, panel = data_sentence(view.page), view.head
    if panel is None:
        return PageHeadline("No attack has run in this study yet.", data)
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    where = f"ε = {setting(view.epsilon)}, δ = {rule_text(view.rule, view.page.axis.rows_symbol)}"
    tiles, limits = [], []
    if other is not None:
        value = other.mean(AUC)
        tiles.append(Tile(num(value), "AUC without privacy", "nonprivate"))
        if other.cell in view.facts.predicted:
            limits.append(
                f"Theory predicts {num(view.facts.predicted[other.cell])} without privacy, from the error "
                f"alone; measured are {num(value)}."
            )
    if best is not None:
        line, cell = best
        tiles.append(
            Tile(
                num(cell.mean(AUC)),
                f"AUC at ε = {setting(view.epsilon)}: {line.label}",
                "best",
                line.info.order,
            )
        )
        allowed = view.facts.allowed.get((cell.cell, AUC), math.nan)
        gaussian = view.facts.allowed_gaussian.get((cell.cell, AUC), math.nan)
        if math.isfinite(gaussian):
            tiles.append(Tile(num(gaussian), "the most that Gaussian noise of this (ε, δ) allows", "cost"))
        limits.append(
            render_sentence("attacks_allowed", cell=cell, allowed=allowed, gaussian=gaussian, coin=CHANCE)
        )
    tiles.append(Tile(num(CHANCE), "a coin", "zero"))
    broken = list(dict.fromkeys(cell for cell, _ in view.facts.exceeding))
    return PageHeadline(
        render_sentence("attack_headline", without=other, epsilon=view.epsilon, best=best),
        data,
        details=render_sentence("attacks_found", without=other, panel=panel, where=where, best=best),
        verdict=render_sentence("attacks_verdict", broken=broken),
        choice=_panels_sentence(view),
        limits=tuple(limits),
        tiles=tuple(tiles),
        number=_number(view, best),
        value=best[1].mean(AUC) if best else None,
        value_error=best[1].means[AUC][1] if best and best[1].means[AUC][1] > 0 else None,
    )


def _number(view: AttackView, best: tuple[AttackLine, AttackCell] | None) -> Tile | None:
    if best is None:
        return None
    line, cell = best
    caption = f"the highest AUC of an attack at ε = {setting(view.epsilon)}: {line.label}; a coin has 0.5"
    return Tile(cell.with_error(AUC), caption, "best", line.info.order)


def _panels_sentence(view: AttackView) -> str:
    parts = []
    for panel in view.heads:
        other, best = panel.without_privacy, panel.best_private(view.epsilon)
        if other is not None and best is not None:
            parts.append(f"{panel.title}: {num(other.mean(AUC))} and {num(best[1].mean(AUC))}")
    if not parts:
        return ""
    return f"AUC without privacy, and the highest at ε = {setting(view.epsilon)}: {'; '.join(parts)}."


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    attacks = AttackView.build(summary, view.page)
    headline = attack_headline(attacks)
    ceilings = attacks.facts.ceilings
    coin = [Guide("a coin", ceilings[0].n, (CHANCE,) * len(ceilings[0].n))] if ceilings else []
    explored = replace(
        view.page, guides=(*ceilings, *coin), findings=(), axis=replace(view.page.axis, column="epsilon")
    )
    pictures = draw_attacks(replace(view, page=explored), attacks, summary)
    rocs = [
        Section(panel.title, picture=drawn)
        for panel, drawn in zip(attacks.heads, pictures.more, strict=False)
    ]
    tables = [
        Section(panel.title, table=attack_table(attacks, panel), folded=i > 0)
        for i, panel in enumerate(attacks.panels)
    ]
    parts = [
        Section("The whole ROC curve", _ROC, parts=rocs),
        Section("In numbers", _NUMBERS, parts=tables),
    ]
    if (sums := sum_table(attacks)) is not None:
        parts.append(Section("What the theorems predict of the sums", _SUMS, table=sums))
    sections = [
        numbers_section(headline, view.page, headline.choice),
        Section("Every attack", parts=parts, id="which"),
    ]
    return LayoutContent(headline, pictures, _CAPTION, sections)


_CAPTION = (
    "Area under the attack’s ROC curve against ε; bands hold 10 % to 90 % of the data sets. Black: without "
    "privacy. Gray: what the guarantee allows to any attack, and what Gaussian noise of the same guarantee "
    "allows; a coin."
)
_ROC = (
    "True against false positive rate at the headline’s ε, on log axes: an attacker who accuses few people "
    "wrongly lives on the left."
)
_NUMBERS = (
    "AUC: within each data set, mean ± standard error over data sets. Pooled: of the scores of all data "
    "sets together, divided by the standard deviation that a non-member’s score has given truth and "
    "release; with its 95 % interval over data sets (DeLong’s, for clusters). TPR: true positive rate at "
    "the threshold that this share of all non-members passes, with Clopper and Pearson’s 95 % interval, "
    "which takes candidates as independent. “≤”: what the certified ε allows; “Gaussian”: what it allows "
    "where all noise is Gaussian. Sum of scores: of the members’, over what an unbiased estimate gives. "
    "“Not resolved”: fewer than ten non-members lie beyond the threshold."
)
_SUMS = (
    "Members’ scores summed, over what Stein’s identity gives for an estimate that is unbiased where it is "
    "attacked (so: 1). For sparse problems the papers claim more, a factor log d, for every accurate "
    "private estimator; their proof lets a derivative pass through the choice of the support. Below 1: "
    "shrunken, clipped or missed coordinates. Above 1: coordinates at the selection’s threshold."
)
