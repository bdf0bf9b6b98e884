"""The page of a study that measures attacks: its panels and lines, figures, sentences and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from reports.cells import Row, errors_of
from reports.charts.drawing import Picture
from reports.charts.lines import Line, guide, roc_picture
from reports.charts.study import Pictures, StudyChart, lines_of_panels, pictures_of
from reports.page import AttackFacts, Guide, StudyPage
from reports.pages.error_page import Layout
from reports.palette import LIMIT_DASH, SOLID
from reports.ranking import PageHeadline
from reports.render import PageTable, TableCell
from reports.results import AUC, POOLED_AUC
from reports.writing import error_bar, num, render_sentence, setting

SUM_RATIO = "attack_sum_ratio"
CHANCE = 0.5
_CEILING_DASHES = (SOLID, LIMIT_DASH)
_LOWEST_RATE = 1e-3
SHOWN_RATES = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class AttackedCell:
    """The row of an attacked cell, and each metric's mean and error."""

    row: Row
    means: Mapping[str, tuple[float, float]]

    @property
    def private(self) -> bool:
        return bool(self.row.calibration != "none")

    @property
    def title(self) -> str:
        return f"{self.row.panel}: n = {self.row.n:,}, d = {self.row.d:,}"

    def mean(self, metric: str = AUC) -> float:
        """Return a metric's mean; NaN where it was not measured or not resolved."""
        return self.means.get(metric, (math.nan, math.nan))[0]

    def with_error(self, metric: str = AUC) -> str:
        mean, error = self.means.get(metric, (math.nan, math.nan))
        return f"{num(mean)} ± {error_bar(error, mean)}" if error > 0 else num(mean)


Panels = list[list[AttackedCell]]  # attacks by panel and size, the headline's first


def attacks_by_panel(page: StudyPage, cells: pd.DataFrame) -> Panels:
    """Return the attacks of a page by panel and size: the headline's panel first, then the nearest size."""
    means: dict[str, dict[str, tuple[float, float]]] = {}
    for cell, metric, mean, se in cells[["cell", "metric", "mean", "se"]].itertuples(index=False, name=None):
        means.setdefault(cell, {})[metric] = (mean, se)
    attacks: dict[tuple[str, int], list[AttackedCell]] = {}
    rows: Sequence[Row] = list(errors_of(cells, page).itertuples())
    for row in rows:
        attacks.setdefault((row.panel, row.n), []).append(AttackedCell(row, means[row.cell]))
    names = sorted(
        dict.fromkeys(panel for panel, _ in attacks), key=lambda name: name != page.headline["panel"]
    )
    order = sorted(
        attacks, key=lambda at: (names.index(at[0]), abs(math.log(at[1] / page.headline["n"])), at[1])
    )
    return [sorted(attacks[at], key=lambda each: (each.row.rank, each.row.epsilon)) for at in order]


def first_sizes(panels: Panels) -> Panels:
    """Return every panel at the size nearest to the headline's."""
    first: dict[str, list[AttackedCell]] = {}
    for attacks in panels:
        first.setdefault(attacks[0].row.panel, attacks)
    return list(first.values())


def at_epsilon(attacks: Sequence[AttackedCell], epsilon: float) -> list[AttackedCell]:
    """Return the attacks at an ε, and those without privacy."""
    return [each for each in attacks if not each.private or each.row.epsilon == epsilon]


def without_privacy(attacks: Sequence[AttackedCell]) -> AttackedCell | None:
    """Return the non-private cell that is attacked best."""
    return max((each for each in attacks if not each.private), key=lambda each: each.mean(), default=None)


def best_private(attacks: Sequence[AttackedCell], epsilon: float) -> AttackedCell | None:
    """Return the private cell that is attacked best at an ε."""
    known = [each for each in attacks if each.private and math.isfinite(each.mean())]
    return max(at_epsilon(known, epsilon), key=lambda each: each.mean(), default=None)


def draw_attacks(page: StudyPage, cells: pd.DataFrame, head: PageHeadline, panels: Panels) -> Pictures:
    ceilings, first, epsilon = _facts(page).ceilings, panels[0], head.where.epsilon
    coin = [Guide("a coin toss", (ceilings[0].n[0], ceilings[0].n[-1]), (CHANCE,) * 2)] if ceilings else []
    guides, axis = (*ceilings, *coin), replace(page.axis, column="epsilon")
    title, best = first[0].title, best_private(first, epsilon)
    text = render_sentence(
        "attack_picture", title=title, without=without_privacy(first), epsilon=epsilon, best=best
    )
    lines = list(dict.fromkeys([*(row.line for row in head.rows), *(each.label for each in guides)]))
    others = [metric for metric, rate in _facts(page).rates.items() if rate not in SHOWN_RATES]
    drawn = cells[~cells["metric"].isin(others)]  # the curves have all rates
    chart = StudyChart.build(replace(page, guides=guides, findings=(), axis=axis), drawn, head)
    pictures = pictures_of(chart, head, lines, lines_of_panels(page, cells, head, lines), text, title)
    return replace(pictures, more=tuple(_roc(page, attacks, epsilon) for attacks in first_sizes(panels)))


def _roc(page: StudyPage, attacks: Sequence[AttackedCell], epsilon: float) -> Picture:
    facts, first = _facts(page), attacks[0]
    lines, reached = [], []
    for each in at_epsilon(attacks, epsilon):
        points = [(facts.rates[m], each.mean(m)) for m in facts.rates if each.mean(m) > 0]
        if points:
            lines.append(Line(each.row.line, [*points, (1.0, 1.0)], each.row.look))
            reached.append((each.row.label, points[0][1], points[0][0]))
    lines += _ceilings(facts.roc_ceilings, first)
    text = render_sentence("attack_roc", title=first.title, reached=reached)
    key = re.sub(r"[^a-z0-9.]+", "-", f"roc-{first.row.panel}-{first.row.n}".lower())
    return roc_picture(lines, key, text, page.source_of(first.row.panel), least=_LOWEST_RATE)


def _facts(page: StudyPage) -> AttackFacts:
    assert isinstance(page.layout_facts, AttackFacts)
    return page.layout_facts


def _ceilings(guides: Sequence[Guide], attack: AttackedCell) -> list[Line]:
    of_panel = [each for each in guides if each.panel == f"{attack.row.panel}:{attack.row.n}"]
    return [
        guide(each.label, list(zip(each.n, each.value, strict=True)), dash)
        for each, dash in zip(of_panel, _CEILING_DASHES, strict=False)
    ]


def attack_table(page: StudyPage, attacks: Sequence[AttackedCell]) -> PageTable:
    """Return the attacks on a panel, a row per estimator and ε."""
    facts = _facts(page)
    rates = {metric: rate for metric, rate in facts.rates.items() if rate in SHOWN_RATES}
    metrics = sorted(rates, key=lambda metric: -rates[metric])
    headings = (f"TPR at FPR {setting(rates[metric])}" for metric in metrics)
    rows: list[tuple[str | TableCell, ...]] = [
        (
            TableCell(
                each.row.label,
                color=each.row.look.color if each.private else "",
                hollow=each.row.calibration == "paper",
            ),
            setting(each.row.epsilon) if each.private else "∞",
            TableCell(each.with_error(), _with_bounds("predicted {}", facts.predicted.get(each.row.cell))),
            *(_value(facts, each, metric) for metric in (POOLED_AUC, *metrics)),
            TableCell(each.with_error(SUM_RATIO), _claim(facts, each)),
        )
        for each in attacks
    ]
    return PageTable(
        ("Estimator", "ε", "AUC", "pooled AUC", *headings, "sum of scores"), rows, attacks[0].title
    )


def _claim(facts: AttackFacts, attack: AttackedCell) -> str:
    """Say what the paper claims of the sum of scores, where the truth is known."""
    claimed = facts.claimed_sums.get(attack.row.panel)
    return "" if claimed is None else render_sentence("attack_claim", claimed=claimed)


def _with_bounds(words: str, *bounds: float | None) -> str:
    """Write numbers in words; empty where one is not known."""
    known = [num(bound) for bound in bounds if bound is not None and math.isfinite(bound)]
    return words.format(*known) if len(known) == len(bounds) else ""


def _value(facts: AttackFacts, attack: AttackedCell, metric: str) -> TableCell:
    """Write a number with its interval and its bounds."""
    if not math.isfinite(attack.mean(metric)):
        return TableCell("not resolved", kind="missing")
    key = (attack.row.cell, metric)
    parts = [
        _with_bounds("{} to {}", *facts.intervals.get(key, (None, None))),
        _with_bounds("≤ {}", facts.allowed.get(key)),
        _with_bounds("Gaussian {}", facts.allowed_gaussian.get(key)),
    ]
    return TableCell(num(attack.mean(metric)), ", ".join(filter(None, parts)))


def content(page: StudyPage, cells: pd.DataFrame, head: PageHeadline | None) -> Layout:
    panels = attacks_by_panel(page, cells)
    if not panels or head is None:
        return Layout("No attack has run in this study yet.")
    facts, epsilon = _facts(page), head.where.epsilon
    other, best = without_privacy(panels[0]), best_private(panels[0], epsilon)
    pictures, key = draw_attacks(page, cells, head, panels), (best.row.cell, AUC) if best else ("", "")
    both = [(without_privacy(attacks), best_private(attacks, epsilon)) for attacks in first_sizes(panels)]
    titles = [attacks[0].title for attacks in first_sizes(panels)]
    return Layout(
        render_sentence("attack_headline", without=other, epsilon=epsilon, best=best),
        pictures,
        (best.with_error(), render_sentence("attack_quoted", best=best)) if best else None,
        render_sentence("attack_caption"),
        facts={
            "without": other,
            "best": best,
            "broken": list(dict.fromkeys(cell for cell, _ in facts.exceeding)),
            "predicted": facts.predicted.get(other.row.cell, math.nan) if other else math.nan,
            "allowed": facts.allowed.get(key, math.nan),
            "gaussian": facts.allowed_gaussian.get(key, math.nan),
            "by_panel": [(b.title, a.mean(), b.mean()) for a, b in both if a and b],
            "curves": list(zip(titles, pictures.more, strict=False)),
            "tables": [(attacks[0].title, attack_table(page, attacks)) for attacks in panels],
        },
    )
