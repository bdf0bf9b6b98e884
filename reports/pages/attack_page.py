"""The page of a study that measures attacks: its panels and lines, figures, sentences and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from reports.charts.drawing import Picture
from reports.charts.lines import Line, guide, roc_picture
from reports.charts.study import Pictures, StudyChart, lines_of, pictures_of
from reports.headline import PageHeadline, Tile, condition, data_sentence
from reports.page import AttackFacts, Guide
from reports.pages.error_page import LayoutContent, numbers_section
from reports.palette import LIMIT_DASH, SOLID, slot
from reports.render import PageTable, Section, TableCell
from reports.results import AUC, POOLED_AUC
from reports.series import Series, View
from reports.writing import error_bar, num, render_sentence, setting

SUM_RATIO = "attack_sum_ratio"
CHANCE = 0.5
_CEILING_DASHES = (SOLID, LIMIT_DASH)
_LOWEST_RATE = 1e-3
SHOWN_RATES = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class AttackedCell:
    """A cell: its line, its panel and size, its ε (NaN without privacy), each metric's mean and error."""

    line: Series
    panel: str
    n: int
    d: int
    epsilon: float
    cell: str
    means: Mapping[str, tuple[float, float]]

    @property
    def private(self) -> bool:
        return self.line.calibration != "none"

    @property
    def title(self) -> str:
        return f"{self.panel}: n = {self.n:,}, d = {self.d:,}"

    @property
    def asked(self) -> str:
        return setting(self.epsilon) if self.private else "∞"

    def mean(self, metric: str = AUC) -> float:
        """Return a metric's mean; NaN where it was not measured or not resolved."""
        return self.means.get(metric, (math.nan, math.nan))[0]

    def with_error(self, metric: str = AUC) -> str:
        mean, error = self.means.get(metric, (math.nan, math.nan))
        return f"{num(mean)} ± {error_bar(error, mean)}" if error > 0 else num(mean)


Panels = list[list[AttackedCell]]  # attacks by panel and size, the headline's first


def attacks_by_panel(view: View) -> Panels:
    """Return the attacks of a page by panel and size: the headline's panel first, then the nearest size."""
    head, every = view.page.headline, pd.concat([view.table, view.others])
    means = {
        str(cell): {m: (mean, se) for m, mean, se in rows[["metric", "mean", "se"]].itertuples(index=False)}
        for cell, rows in every.groupby("cell", sort=False)
    }
    lines = {(s.info.name, s.calibration, s.form): s for s in lines_of(view, view.table)}
    columns = ["estimator", "calibration", "form", "panel", "n", "d", "epsilon", "cell"]
    found: dict[tuple[str, int], list[AttackedCell]] = {}
    for name, noise, form, panel, n, d, epsilon, cell in view.table[columns].itertuples(
        index=False, name=None
    ):
        attack = AttackedCell(lines[name, noise, form], panel, int(n), int(d), epsilon, cell, means[cell])
        found.setdefault((panel, int(n)), []).append(attack)
    names = sorted(dict.fromkeys(panel for panel, _ in found), key=lambda name: name != head["panel"])
    order = sorted(found, key=lambda at: (names.index(at[0]), abs(math.log(at[1] / head["n"])), at[1]))
    return [sorted(found[at], key=lambda each: (each.line.rank, each.epsilon)) for at in order]


def first_sizes(panels: Panels) -> Panels:
    """Return every panel at the size nearest to the headline's."""
    first: dict[str, list[AttackedCell]] = {}
    for attacks in panels:
        first.setdefault(attacks[0].panel, attacks)
    return list(first.values())


def at_epsilon(attacks: Sequence[AttackedCell], epsilon: float) -> list[AttackedCell]:
    """Return the attacks at an ε, and those without privacy."""
    return [each for each in attacks if not each.private or each.epsilon == epsilon]


def without_privacy(attacks: Sequence[AttackedCell]) -> AttackedCell | None:
    """Return the non-private cell that is attacked best."""
    return max((each for each in attacks if not each.private), key=lambda each: each.mean(), default=None)


def best_private(attacks: Sequence[AttackedCell], epsilon: float) -> AttackedCell | None:
    """Return the private cell that is attacked best at an ε."""
    known = [each for each in attacks if each.private and math.isfinite(each.mean())]
    return max(at_epsilon(known, epsilon), key=lambda each: each.mean(), default=None)


def draw_attacks(view: View, panels: Panels, summary: pd.DataFrame) -> Pictures:
    where = view.headline
    if not panels or where is None:
        return Pictures()
    head, labels = panels[0], dict.fromkeys(each.label for each in view.page.guides)
    without, best = without_privacy(head), best_private(head, where.epsilon)
    found = {"without": without, "epsilon": where.epsilon, "best": best}
    text = render_sentence("attack_picture", title=head[0].title, **found)
    lines = [*(series.brief for series in view.series(where)), *labels]
    pictures = pictures_of(view, StudyChart.build(view, summary), lines, text, title=head[0].title)
    return replace(
        pictures, more=tuple(_roc(view, attacks, where.epsilon) for attacks in first_sizes(panels))
    )


def _roc(view: View, attacks: Sequence[AttackedCell], epsilon: float) -> Picture:
    facts, first = _facts(view), attacks[0]
    lines, reached = [], []
    for each in at_epsilon(attacks, epsilon):
        points = [(facts.rates[m], each.mean(m)) for m in facts.rates if each.mean(m) > 0]
        if points:
            lines.append(Line(each.line.brief, [*points, (1.0, 1.0)], each.line.look))
            reached.append((each.line.label, points[0][1], points[0][0]))
    lines += _ceilings(facts.roc_ceilings, first)
    text = render_sentence("attack_roc", title=first.title, reached=reached)
    key = re.sub(r"[^a-z0-9.]+", "-", f"roc-{first.panel}-{first.n}".lower())
    source = view.page.source_of(first.panel)
    return roc_picture(lines, key, text, source, least=_LOWEST_RATE)


def _facts(view: View) -> AttackFacts:
    assert isinstance(view.page.layout_facts, AttackFacts)
    return view.page.layout_facts


def _ceilings(guides: Sequence[Guide], attack: AttackedCell) -> list[Line]:
    own = [each for each in guides if each.panel == f"{attack.panel}:{attack.n}"]
    return [
        guide(each.label, list(zip(each.n, each.value, strict=True)), dash)
        for each, dash in zip(own, _CEILING_DASHES, strict=False)
    ]


def attack_table(view: View, attacks: Sequence[AttackedCell]) -> PageTable:
    """Return the attacks on a panel, a row per estimator and ε."""
    facts = _facts(view)
    rates = {metric: rate for metric, rate in facts.rates.items() if rate in SHOWN_RATES}
    metrics = sorted(rates, key=lambda metric: -rates[metric])
    named = (f"TPR at FPR {setting(rates[metric])}" for metric in metrics)
    rows: list[tuple[str | TableCell, ...]] = [
        (
            TableCell(
                each.line.label,
                slot=slot(each.line.info.order) if each.private else None,
                hollow=each.line.calibration == "paper",
            ),
            each.asked,
            TableCell(each.with_error(), _with_bounds("predicted {}", facts.predicted.get(each.cell))),
            *(_value(facts, each, metric) for metric in (POOLED_AUC, *metrics)),
            TableCell(each.with_error(SUM_RATIO), _claim(facts, each)),
        )
        for each in attacks
    ]
    return PageTable(("Estimator", "ε", "AUC", "pooled AUC", *named, "sum of scores"), rows, attacks[0].title)


def _claim(facts: AttackFacts, attack: AttackedCell) -> str:
    """Say what the paper claims of the sum of scores, where the truth is known."""
    claimed = facts.claimed_sums.get(attack.panel)
    if claimed is None:
        return ""
    return render_sentence("attack_claim", claimed=claimed)


def _with_bounds(words: str, *bounds: float | None) -> str:
    """Write numbers in words; empty where one is not known."""
    known = [num(bound) for bound in bounds if bound is not None and math.isfinite(bound)]
    return words.format(*known) if len(known) == len(bounds) else ""


def _value(facts: AttackFacts, attack: AttackedCell, metric: str) -> TableCell:
    """Write a number with its interval and its bounds."""
    if not math.isfinite(attack.mean(metric)):
        return TableCell("not resolved", kind="missing")
    key = (attack.cell, metric)
    parts = [
        _with_bounds("{} to {}", *facts.intervals.get(key, (None, None))),
        _with_bounds("≤ {}", facts.allowed.get(key)),
        _with_bounds("Gaussian {}", facts.allowed_gaussian.get(key)),
    ]
    return TableCell(num(attack.mean(metric)), ", ".join(filter(None, parts)))


def attack_headline(view: View, panels: Panels) -> PageHeadline:
    data, where, facts = data_sentence(view.page), view.headline, _facts(view)
    if not panels:
        return PageHeadline(render_sentence("no_attack"), data)
    epsilon = where.epsilon if where else math.nan
    other, best = without_privacy(panels[0]), best_private(panels[0], epsilon)
    limits = []
    if other is not None and other.cell in facts.predicted:
        known = {"predicted": facts.predicted[other.cell], "measured": other.mean()}
        limits.append(render_sentence("attacks_predicted", **known))
    if best is not None:
        allowed = facts.allowed.get((best.cell, AUC), math.nan)
        gaussian = facts.allowed_gaussian.get((best.cell, AUC), math.nan)
        limits.append(
            render_sentence("attacks_allowed", best=best, allowed=allowed, gaussian=gaussian, coin=CHANCE)
        )
    broken = list(dict.fromkeys(cell for cell, _ in facts.exceeding))
    at = condition(view, where) if where else ""
    return PageHeadline(
        render_sentence("attack_headline", without=other, epsilon=epsilon, best=best),
        data,
        details=render_sentence("attacks_found", without=other, where=at, best=best),
        verdict=render_sentence("attacks_verdict", broken=broken),
        choice=_panels_sentence(panels, epsilon),
        limits=tuple(limits),
        number=_number(best),
    )


def _number(best: AttackedCell | None) -> Tile | None:
    if best is None:
        return None
    return Tile(best.with_error(), render_sentence("attack_quoted", best=best))


def _panels_sentence(panels: Panels, epsilon: float) -> str:
    both = [(without_privacy(attacks), best_private(attacks, epsilon)) for attacks in first_sizes(panels)]
    found = [(best.title, other.mean(), best.mean()) for other, best in both if other and best]
    return render_sentence("attack_panels", epsilon=epsilon, found=found)


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    panels = attacks_by_panel(view)
    headline, ceilings = attack_headline(view, panels), _facts(view).ceilings
    coin = [Guide("a coin", ceilings[0].n, (CHANCE,) * len(ceilings[0].n))] if ceilings else []
    axis = replace(view.page.axis, column="epsilon")
    explored = replace(view.page, guides=(*ceilings, *coin), findings=(), axis=axis)
    pictures = draw_attacks(replace(view, page=explored), panels, summary)
    drawn = zip(first_sizes(panels), pictures.more, strict=False)
    rocs = [Section(attacks[0].title, picture=picture) for attacks, picture in drawn]
    tables = [
        Section(attacks[0].title, table=attack_table(view, attacks), folded=i > 0)
        for i, attacks in enumerate(panels)
    ]
    parts = [Section("The whole ROC curve", render_sentence("attack_roc_about"), parts=rocs)]
    parts.append(Section("In numbers", render_sentence("attack_numbers"), parts=tables))
    sections = [
        numbers_section(headline, headline.choice),
        Section("Every attack", parts=parts, id="which"),
    ]
    return LayoutContent(headline, pictures, render_sentence("attack_caption"), sections)
