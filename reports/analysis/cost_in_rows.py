"""The cost of privacy compared with sampling error, as an ε and as a number of rows.

A subsample of m of N rows, drawn without return, misses their answer by e(m) on average. Rows drawn from a
large population miss its answer by more, s(m) = e(m) / √(1 − m/N). A private estimate of error E adds
p = √(E² − e²): privacy's part of it. Both sentences compare p with s.
"""

from __future__ import annotations

import math

from reports.analysis.error_curve import first_below
from reports.analysis.ranking import population_error, privacy_part, rank
from reports.analysis.series import Series, View
from reports.numbers import error_bar
from reports.sentences import said

_BEYOND = 16.0  # how far beyond the largest size the last slope is followed
_BEYOND_EPSILON = 4.0  # how far beyond the largest ε


def enough_epsilon(view: View) -> str:
    """Say from which ε on privacy adds less error than sampling; empty where that is unknown."""
    where, m = view.headline, view.headline_size
    if where is None or m is None or (chance := population_error(view, m)) is None:
        return ""
    parts, deviations = {}, {}
    for each in view.settings:
        best = rank(view.series(each), m).best
        if (each.delta_rule, each.panel) == (where.delta_rule, where.panel) and best is not None:
            parts[each.epsilon] = part = privacy_part(view, best[1].mean, m)
            # p = √(E² − e²) moves by E/p where E moves by one; e hardly moves.
            deviations[each.epsilon] = best[1].mean * best[1].se / part if part > 0 else 0.0
    if not parts:
        return ""
    enough = [epsilon for epsilon in sorted(parts) if all(parts[e] <= chance for e in parts if e >= epsilon)]
    first, last = enough[0] if enough else None, max(parts)
    added = parts[first or last]
    deviation = deviations[first or last]
    return said(
        "enough_epsilon",
        m=m,
        units=view.page.population[1],
        chance=chance,
        first=first,
        least=first == min(parts),
        added=added,
        unsure=math.isfinite(deviation) and chance - added <= 2 * deviation,
        deviation=error_bar(deviation, added),
        ratio=added / chance,
        last=last,
        needed=first_below(chance, list(parts.items()), _BEYOND_EPSILON),
    )


def rows_for_the_same(view: View) -> str:
    """Say how many rows a private estimate needs to be as good as the headline's rows are without privacy."""
    where, m = view.headline, view.headline_size
    if where is None or m is None or (chance := population_error(view, m)) is None:
        return ""
    ranking = rank(view.series(where), m)
    best = ranking.best
    if best is None or best[1].mean > ranking.zero:
        return ""
    errors = _population_errors(view, best[0])
    if m not in errors or errors[m] <= chance:
        return ""
    needed = first_below(chance, list(errors.items()), _BEYOND)
    return said(
        "rows_for_the_same",
        epsilon=where.epsilon,
        m=m,
        units=view.page.population[1],
        name=best[0].full,
        worth=_rounded(m * (chance / errors[m]) ** 2),
        needed=_rounded(needed),
        ratio=needed / m,
        beyond=_BEYOND,
    )


def _population_errors(view: View, series: Series) -> dict[float, float]:
    """Return √(s² + p²) of an estimator by size: its error about a large population."""
    found = {}
    for point in series.points:
        chance = population_error(view, point.x) if point.answered else None
        if chance is not None:
            found[point.x] = math.hypot(chance, privacy_part(view, point.mean, point.x))
    return found


def _rounded(rows: float) -> str:
    """Write a number of rows in two digits."""
    return f"{float(f'{rows:.2g}'):,.0f}"
