"""The page of a study that measures attacks: its panels and lines, figures, sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import pandas as pd

from dpalgos.catalog import Estimator
from reports.analysis.results import AUC, POOLED_AUC
from reports.analysis.series import BRIEF_WORDS, CALIBRATION_WORDS, View, comma, nearest_value
from reports.charts.explorer import explorer_data
from reports.charts.line_chart import Frame, Line, Reference, line_chart, line_picture
from reports.charts.picture import Picture, picture
from reports.charts.study_charts import Pictures, certified_picture, slug
from reports.charts.vega_lite import Chart
from reports.page import AttackFacts, Guide, StudyPage
from reports.pages.error_page import LayoutContent, headline_facts
from reports.palette import LIMIT_DASH, SOLID, ZERO_DOTS, Look, look
from reports.words.headline import PageHeadline, Tile, data_sentence
from reports.words.tables import PlainCell, PlainTable
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


def draw_attacks(view: AttackView, certified: Picture | None) -> Pictures:
    head = view.head
    if head is None:
        return Pictures()
    source, text = view.page.dataset.source_of(head.name), _auc_text(view, head)
    return Pictures(
        picture(_auc(view, head, 640, 400), "main", text, source, title=head.title),
        picture(_auc(view, head, 300, 230), "card", text, source, png=False),
        certified,
        tuple(_roc(view, panel) for panel in view.heads),
    )


def _auc(view: AttackView, panel: AttackPanel, width: int, height: int) -> Chart:
    epsilons = sorted({cell.epsilon for line in panel.lines if line.private for cell in line.cells})
    ends = (epsilons[0] / 1.15, epsilons[-1] * 1.15) if len(epsilons) > 1 else (0.1, 10.0)
    bottom = min([CHANCE, *(c.mean(AUC) for line in panel.lines for c in line.cells)]) - 0.02
    lines = []
    for line in panel.lines:
        shown = [cell for cell in line.cells if math.isfinite(cell.mean(AUC))]
        points = [(cell.epsilon, cell.mean(AUC)) for cell in shown]
        band = [(v - e, v + e) for v, e in map(_with_margin, shown)]
        if not line.private and points:
            points, band = [(x, points[0][1]) for x in ends], []
        lines.append(Line(line.brief, points, _look(line), band))
    frame = Frame(
        x_title=view.page.axis.label,
        y_title="AUC: 1 finds everyone, ½ is a coin" if width > 400 else "",
        x=ends,
        y=(bottom, 1.02),
        x_ticks=epsilons,
        y_log=False,
        width=width,
        height=height,
    )
    coin = Reference("a coin", [(x, CHANCE) for x in ends], ZERO_DOTS)
    return line_chart(lines, frame, [coin, *_ceilings(view.facts.ceilings, panel)])


def _with_margin(cell: AttackCell) -> tuple[float, float]:
    mean, error = cell.means[AUC]
    return mean, 1.96 * error if math.isfinite(error) else 0.0


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
    axes = "false positive rate", "true positive rate"
    frame = Frame(*axes, ends, ends, panel.title, width=400, height=280)
    diagonal = Reference("", [(_LOWEST_RATE, _LOWEST_RATE), (1.0, 1.0)], ZERO_DOTS)
    guides = [diagonal, *_ceilings(view.facts.roc_ceilings, panel)]
    text = f"ROC curves on log axes, {panel.title}. True positive rates: {'; '.join(reached)}."
    key = slug(f"roc-{panel.name}-{panel.n}")
    source = view.page.dataset.source_of(panel.name)
    return line_picture(lines, frame, key, text, source, guides=guides)


def _ceilings(guides: Sequence[Guide], panel: AttackPanel) -> list[Reference]:
    own = [guide for guide in guides if guide.panel == f"{panel.name}:{panel.n}"]
    return [
        Reference(guide.label, list(zip(guide.n, guide.value, strict=True)), dash)
        for guide, dash in zip(own, _CEILING_DASHES, strict=False)
    ]


def _look(line: AttackLine) -> Look:
    role = "private" if line.private else "nonprivate"
    return look(role, line.info.order, calibration=line.calibration)


def sum_table(view: AttackView) -> PlainTable:
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
    return PlainTable(columns, tuple(rows))


def attack_tables(view: AttackView) -> tuple[PlainTable, ...]:
    """Return a table per panel and size, the headline's first."""
    return tuple(_table(view, panel) for panel in view.panels)


def _table(view: AttackView, panel: AttackPanel) -> PlainTable:
    rates = {metric: rate for metric, rate in view.facts.rates.items() if rate in SHOWN_RATES}
    metrics = sorted(rates, key=lambda metric: -rates[metric])
    named = (f"TPR at FPR {setting(rates[metric])}" for metric in metrics)
    return PlainTable(
        ("Estimator", "ε", "AUC", "pooled AUC", *named, "sum of scores"),
        tuple(
            (
                PlainCell(
                    line.label, (), line.info.order if line.private else None, line.calibration == "paper"
                ),
                _epsilon(line, cell),
                PlainCell(cell.with_error(AUC), (_predicted(view, cell),)),
                *(_value(view, cell, metric) for metric in (POOLED_AUC, *metrics)),
                cell.with_error(SUM_RATIO),
            )
            for line in panel.lines
            for cell in line.cells
        ),
        panel.title,
    )


def _epsilon(line: AttackLine, cell: AttackCell) -> str:
    return setting(cell.epsilon) if line.private else "∞"


def _predicted(view: AttackView, cell: AttackCell) -> str:
    value = view.facts.predicted.get(cell.cell, math.nan)
    return f"predicted {num(value)}" if math.isfinite(value) else ""


def _value(view: AttackView, cell: AttackCell, metric: str) -> PlainCell:
    """Write a number with its interval and its bounds."""
    mean = cell.mean(metric)
    if not math.isfinite(mean):
        return PlainCell("not resolved")
    low, high = view.facts.intervals.get((cell.cell, metric), (math.nan, math.nan))
    allowed = view.facts.allowed.get((cell.cell, metric), math.nan)
    gaussian = view.facts.allowed_gaussian.get((cell.cell, metric), math.nan)
    parts = [f"≤ {num(allowed)}"] if math.isfinite(allowed) else []
    parts += [f"Gaussian {num(gaussian)}"] if math.isfinite(gaussian) else []
    interval = f"{num(low)} to {num(high)}" if math.isfinite(low) else ""
    return PlainCell(num(mean), (interval, ", ".join(parts)))


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
        value=best[1].mean(AUC) if best else None,
        value_error=best[1].means[AUC][1] if best and best[1].means[AUC][1] > 0 else None,
    )


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
    return LayoutContent(
        headline,
        draw_attacks(attacks, certified_picture(view)),
        explorer_data(summary, replace(view, page=explored)),
        {
            "contents": (("cost", "Who can be found?"), ("which", "Every attack")),
            "facts": headline_facts(headline, view.page, headline.choice),
            "attacks": attack_tables(attacks),
            "sums": sum_table(attacks),
            "comparisons": PlainTable(),
        },
    )
