"""The results of a study of attacks: panels, lines against ε, and the cells on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import pandas as pd

from reports.analysis.series import BRIEF_WORDS, CALIBRATION_WORDS, comma, nearest
from reports.numbers import error_bar, num
from reports.page import AttackFacts, EstimatorInfo, StudyPage

AUC, POOLED_AUC, SUM_RATIO = "auc", "pooled_auc", "attack_sum_ratio"
CHANCE = 0.5


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

    info: EstimatorInfo
    calibration: str
    form: str
    cells: tuple[AttackCell, ...]

    @property
    def private(self) -> bool:
        return self.calibration != "none"

    @property
    def brief(self) -> str:
        return comma(self.info.label, self.form, BRIEF_WORDS.get(self.calibration))

    @property
    def label(self) -> str:
        return comma(self.info.label, self.form, CALIBRATION_WORDS.get(self.calibration))

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
        epsilon = nearest(summary["epsilon"].dropna(), asked) or asked
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
