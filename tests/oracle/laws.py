"""The verdicts: on one answer without noise, on 30 answers at ε = 3, and on answers after a change."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.oracle.doors import Outcome, Pair, Z, asked

WIDTHS = 0.6, 4.0  # of a stated half-width over the classical one, without noise
SEEDS, EPSILON, FEWEST_COVERED = 30, 3.0, 24
BIAS = 0.35  # half-widths


def verdict(pair: Pair) -> str:
    """Return "ok", "no interval", or what is wrong.

    - "false": the stated interval excludes the answer on the same rows.
    - "value": the answer is off by more than the tolerance.
    - "floor": it is off, and the interval is wide enough to say so.
    - "width": the interval has another width than the classical one.
    - "not determined": there is an interval where the rows determine nothing.
    """
    if not np.isfinite(pair.got) or np.isnan(pair.half):
        return "no interval"
    if not np.isfinite(pair.want):
        return "not determined" if pair.half < 2 * abs(pair.got) else "no interval"
    error, unit = abs(pair.got - pair.want), max(pair.se, 1e-6 * abs(pair.want), 1e-300)
    if error > pair.tolerance * unit:
        if error > max(pair.half, unit) and np.isfinite(pair.half):
            return "false"
        return "floor" if 2 * Z * unit < pair.half < np.inf else "value"
    if pair.widths and np.isfinite(pair.half) and pair.se > 1e-6 * abs(pair.want):
        return "ok" if WIDTHS[0] <= pair.half / (Z * pair.se) <= WIDTHS[1] else "width"
    return "ok"


def classical_faults(outcome: Outcome) -> dict[str, str]:
    """Return the worst pair of each kind of fault, unless there is a caution."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in [] if outcome.cautions else outcome.pairs:
        found[verdict(pair)].append(pair)
    return {kind: shown(pairs) for kind, pairs in found.items() if kind not in ("ok", "no interval")}


def shown(pairs: Iterable[Pair]) -> str:
    worst = max(
        pairs, key=lambda p: abs(p.got - p.want) / max(p.se, 1e-12) if np.isfinite(p.want) else np.inf
    )
    return f"{worst.name}: {worst.got:.6g} ± {worst.half:.3g}, not {worst.want:.6g} (se {worst.se:.3g})"


def moderate_faults(door: Any, recipe: Any) -> dict[str, str]:
    """Return biased and uncovered answers of 30 releases of the same rows."""
    by_name: dict[str, list[Pair]] = defaultdict(list)
    for seed in range(SEEDS):
        outcome = asked(door, recipe, EPSILON, seed)
        if outcome.refused:
            return {}
        for pair in [] if outcome.cautions else outcome.pairs:
            if np.isfinite([pair.got, pair.half, pair.want]).all():
                by_name[pair.name].append(pair)
    found: dict[str, str] = {}
    for name, pairs in by_name.items():
        if len(pairs) < SEEDS * 2 / 3:
            continue
        got, half = np.array([(p.got, p.half) for p in pairs]).T
        off = got - pairs[0].want
        covered = np.mean(np.abs(off) <= half + 1e-12 * abs(pairs[0].want))
        text = f"{name}: off by {off.mean():.4g}, sd {off.std():.3g}, half {half.mean():.3g}, {covered:.0%}"
        known = np.mean([pair.tolerance * pair.se for pair in pairs])
        if abs(off.mean()) > max(BIAS * half.mean(), 3 * off.std(ddof=1) / np.sqrt(len(off)), known):
            found.setdefault("biased", text)
        if covered < FEWEST_COVERED / SEEDS:
            found.setdefault("not covered", text)
    return found
