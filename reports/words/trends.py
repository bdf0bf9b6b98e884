"""How the smallest private error changes with ε, with δ and with the panel, in sentences."""

from __future__ import annotations

from reports.analysis.ranking import rank
from reports.analysis.series import Setting, View
from reports.numbers import num, rule_text, setting
from reports.sentences import said


def trends(view: View) -> list[str]:
    """Return a sentence for each quantity that varies around the headline's setting."""
    head, page = view.headline, view.page
    if head is None:
        return []
    symbol, by_panel = page.rows_symbol, []
    for panel in view.panels:
        where = view.nearest(panel) or head
        other = "" if where.epsilon == head.epsilon else f", ε = {setting(where.epsilon)}"
        by_panel.append((f"{page.panel_word} “{panel}”{other}", where))
    by_epsilon = [(f"ε = {setting(e)}", Setting(e, head.delta_rule, head.panel)) for e in view.epsilons]
    by_rule = [(f"δ = {rule_text(r, symbol)}", Setting(head.epsilon, r, head.panel)) for r in view.rules]
    wanted = {"ε": by_epsilon, "δ": by_rule, f"the {page.panel_word}": by_panel}
    ran = {name: [i for i in items if i[1] in view.settings] for name, items in wanted.items()}
    told = [_trend(view, name, items) for name, items in ran.items() if len(items) > 1]
    return [sentence for sentence in told if sentence]


def _trend(view: View, name: str, items: list[tuple[str, Setting]]) -> str:
    """Say the smallest private error of each setting, and where the zero vector beats every answer."""
    symbol, found, useless = view.page.x_symbol, [], []
    for caption, where in items:
        x = view.size_at(where)
        ranking = None if x is None else rank(view.series(where), x)
        if ranking is None or ranking.best is None:
            continue
        found.append((ranking.best, caption, ranking.best[1].x))
        other = ranking.non_private
        if other is not None and other[1].mean > ranking.zero:
            useless.append(
                f"At {caption} the zero vector ({num(ranking.zero)}) beats even the answer without privacy "
                f"({other[0].name}, {num(other[1].mean)})."
            )
    if not found:
        return ""
    sizes = {x for _, _, x in found}
    common = sizes.pop() if len(sizes) == 1 else None
    return " ".join([said("trend", name=name, symbol=symbol, found=found, x=common), *useless])
