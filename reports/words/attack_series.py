"""Panels and lines against ε of a study of attacks, and sentences about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from reports.analysis.series import BRIEF_WORDS, CALIBRATION_WORDS
from reports.numbers import error_bar, num, rule_text, setting
from reports.page import AttackFacts, EstimatorInfo, StudyPage
from reports.words.headline import PageHeadline, Tile, data_sentence

AUC, POOLED_AUC, SUM_RATIO = "auc", "pooled_auc", "attack_sum_ratio"
CHANCE = 0.5


@dataclass(frozen=True)
class Measured:
    """A cell: ε (NaN without privacy), and mean and standard error of each metric."""

    cell: str
    epsilon: float
    certified: float
    means: dict[str, tuple[float, float]]

    def mean(self, metric: str) -> float:
        """Return a metric's mean; NaN where it was not measured or not resolved."""
        return self.means.get(metric, (math.nan, math.nan))[0]

    def with_error(self, metric: str) -> str:
        """Write a metric with its standard error."""
        mean, error = self.means.get(metric, (math.nan, math.nan))
        return f"{num(mean)} ± {error_bar(error, mean)}" if math.isfinite(error) and error > 0 else num(mean)


@dataclass(frozen=True)
class Line:
    """An estimator with its calibration at one panel and size; one cell without privacy, else one per ε."""

    info: EstimatorInfo
    calibration: str
    form: str
    cells: tuple[Measured, ...]

    @property
    def private(self) -> bool:
        """Whether the cells have an ε."""
        return self.calibration != "none"

    @property
    def brief(self) -> str:
        """Name for a line's end."""
        return ", ".join(
            part for part in (self.info.label, self.form, BRIEF_WORDS.get(self.calibration)) if part
        )

    @property
    def label(self) -> str:
        words = CALIBRATION_WORDS.get(self.calibration)
        return ", ".join(part for part in (self.info.label, self.form, words) if part)

    def at(self, epsilon: float) -> Measured | None:
        """Return the cell at an ε; the only one without privacy."""
        return next((c for c in self.cells if not self.private or c.epsilon == epsilon), None)


@dataclass(frozen=True)
class AttackPanel:
    """A panel at one size."""

    name: str
    about: str
    n: int
    d: int
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The panel's name and sizes."""
        return f"{self.name}: n = {self.n:,}, d = {self.d:,}"

    @cached_property
    def without_privacy(self) -> Measured | None:
        """The non-private cell that is attacked best."""
        cells = [line.cells[0] for line in self.lines if not line.private]
        return max(cells, key=lambda c: c.mean(AUC), default=None)

    def best_private(self, epsilon: float) -> tuple[Line, Measured] | None:
        """Return the private line that is attacked best at an ε."""
        pairs = [(line, cell) for line in self.lines if line.private and (cell := line.at(epsilon))]
        pairs = [pair for pair in pairs if math.isfinite(pair[1].mean(AUC))]
        return max(pairs, key=lambda pair: pair[1].mean(AUC), default=None)


@dataclass(frozen=True)
class AttackView:
    """The panels of a study, the headline's first, each at its sizes."""

    page: StudyPage
    facts: AttackFacts
    epsilon: float
    rule: str
    panels: tuple[AttackPanel, ...]

    @classmethod
    def build(cls, summary: pd.DataFrame, page: StudyPage) -> AttackView:
        """Arrange the summary of a study's table."""
        assert page.layout_facts is not None
        head = page.headline
        asked = float(head["epsilon"])
        epsilons = sorted({float(e) for e in summary["epsilon"].dropna()})
        epsilon = min(epsilons, key=lambda e: (abs(math.log(e / asked)), e), default=asked)
        panels = []
        for name in sorted(summary["panel"].unique(), key=lambda name: name != head["panel"]):
            rows = summary[summary["panel"] == name]
            sizes = sorted({int(n) for n in rows["n"]}, key=lambda n: (abs(math.log(n / head["n"])), n))
            panels += [_panel(page, name, n, rows[rows["n"] == n]) for n in sizes]
        return cls(page, page.layout_facts, epsilon, str(head["delta_rule"]), tuple(panels))

    @property
    def head(self) -> AttackPanel | None:
        """The headline's panel at its size."""
        return self.panels[0] if self.panels else None

    @property
    def heads(self) -> tuple[AttackPanel, ...]:
        """Every panel at the size nearest to the headline's."""
        return tuple({panel.name: panel for panel in reversed(self.panels)}[name] for name in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(panel.name for panel in self.panels))


def _panel(page: StudyPage, name: str, n: int, rows: pd.DataFrame) -> AttackPanel:
    lines = []
    for (estimator, calibration, form), cells in rows.groupby(
        ["estimator", "calibration", "form"], sort=False
    ):
        measured = []
        for cell, metrics in cells.groupby("cell", sort=False):
            first = metrics.iloc[0]
            means = {
                m: (float(v), float(e))
                for m, v, e in zip(metrics["metric"], metrics["mean"], metrics["se"], strict=True)
            }
            measured.append(
                Measured(str(cell), float(first["epsilon"]), float(first["estimator_epsilon"]), means)
            )
        ordered = tuple(sorted(measured, key=lambda m: m.epsilon))
        lines.append(Line(page.estimator(str(estimator)), str(calibration), str(form), ordered))
    order = {"none": 2, "tight": 0, "paper": 1}
    lines.sort(key=lambda line: (not line.private, line.info.order, line.form, order[line.calibration]))
    return AttackPanel(name, page.panels_and_forms.get(name, ""), n, int(rows["d"].iloc[0]), tuple(lines))


def attack_headline(view: AttackView) -> PageHeadline:
    """Compute the top of the page."""
    data, panel = data_sentence(view.page), view.head
    if panel is None:
        return PageHeadline("No attack has run in this study yet.", "", "", data, "", (), ())
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    where = f"ε = {setting(view.epsilon)}, δ = {rule_text(view.rule, view.page.rows_symbol)}"
    sentences, tiles, limits = [], [], []
    if other is not None:
        value = other.mean(AUC)
        sentences.append(
            f"Without privacy an attacker tells members from others with an AUC of {other.with_error(AUC)} "
            f"({panel.title})"
        )
        tiles.append(Tile(num(value), "AUC without privacy", "nonprivate"))
        if other.cell in view.facts.predicted:
            limits.append(
                f"Theory predicts {num(view.facts.predicted[other.cell])} without privacy, from the error "
                f"alone; measured are {num(value)}."
            )
    if best is not None:
        line, cell = best
        sentences.append(f"at {where} the highest is {cell.with_error(AUC)} ({line.label})")
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
        text = f"The guarantee allows any attack an AUC of at most {num(allowed)}"
        if math.isfinite(gaussian):
            text += f", and {num(gaussian)} where the noise is Gaussian"
            tiles.append(Tile(num(gaussian), "the most that Gaussian noise of this (ε, δ) allows", "cost"))
        limits.append(f"{text}; a coin gives {num(CHANCE)}.")
    tiles.append(Tile(num(CHANCE), "a coin", "zero"))
    text = "; ".join(sentences) if sentences else "No attack gave a number"
    broken = tuple(dict.fromkeys(cell for cell, _ in view.facts.exceeding))
    verdict = (
        "No attack passes what its certificate allows (all tests together at 99 % confidence)."
        if not broken
        else f"More than the certificate allows, at 99 % confidence: {'; '.join(broken)}."
    )
    return PageHeadline(text + ".", verdict, _panels_sentence(view), data, "", tuple(limits), tuple(tiles))


def _panels_sentence(view: AttackView) -> str:
    parts = []
    for panel in view.heads:
        other, best = panel.without_privacy, panel.best_private(view.epsilon)
        if other is not None and best is not None:
            parts.append(f"{panel.title}: {num(other.mean(AUC))} and {num(best[1].mean(AUC))}")
    if not parts:
        return ""
    return f"AUC without privacy, and the highest at ε = {setting(view.epsilon)}: {'; '.join(parts)}."
