"""The verdicts: of a release with next to no noise, of repeated releases at ε = 3, and of a changed table."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tests.oracle.changes import Change
from tests.oracle.recipes import Table

Z = 1.959963985
TOLERANCE, NARROWEST, WIDEST = 0.25, 0.6, 4.0  # classical standard errors; half-widths over the classical one
SEEDS, EPSILON, FEWEST_COVERED = 30, 3.0, 24
BIAS = 0.35  # half-widths
BATCH = 10  # seeds; an estimate that is clearly right by then needs no more
CHANGED = 0.1  # half-widths, by which the estimate of a changed table may differ


@dataclass
class Pair:
    """An estimate and its reference; ``se`` is the classical standard error, ``half`` the stated half-width.

    ``cell`` is how far public bounds may move it, by the docs. ``widths``: the stated width is compared with
    the classical one, and may be ``narrowest`` times it.
    """

    name: str
    got: float
    want: float
    se: float
    half: float = np.inf
    cell: float = 0.0
    widths: bool = True
    narrowest: float = NARROWEST


def pairs(name: str, table: Any, want: Iterable[float], se: Iterable[float], **more: Any) -> Iterator[Pair]:
    """Yield a pair for each row of a table of estimates, and of lower and upper limits in the last columns.

    The index names the rows.
    """
    table = pd.DataFrame(table)
    for (row, (got, *_, low, high)), w, s in zip(table.T.items(), want, se, strict=True):
        yield Pair(f"{name} {row}", float(got), w, s, float(high - low) / 2, **more)


@dataclass
class Outcome:
    """The outcome of a door: pairs, or a refusal; and cautions."""

    pairs: list[Pair] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    refused: str = ""


@dataclass(frozen=True)
class Limit:
    """A stated limit of some estimates: errors in standard errors or absolute, widths, and coverage.

    With ``covers``, the interval allows for the difference. At ε = 3, a bias may be ``bias`` half-widths.
    With ``misses``, noise may hide a larger one.
    """

    tolerance: float = TOLERANCE
    within: float = 0.0
    narrowest: float = NARROWEST
    widest: float = WIDEST
    covers: bool = False
    bias: float = BIAS
    misses: bool = False


Door = Callable[[Any, Table, float, int], Iterator[Pair]]
LimitOf = Callable[[Pair], Limit]


def verdict(pair: Pair, limit: Limit) -> str:
    """Return "ok", "no interval", or what is wrong.

    - "false": the stated interval excludes the reference of the same rows.
    - "value": the estimate is off by more than the tolerance.
    - "width": the interval has another width than the classical one.
    - "not determined": there is an interval where the rows determine nothing.
    """
    if not np.isfinite(pair.got) or np.isnan(pair.half):
        return "no interval"
    if not np.isfinite(pair.want):
        return "not determined" if pair.half < 2 * abs(pair.got) and not limit.covers else "no interval"
    error, unit = abs(pair.got - pair.want), max(pair.se, 1e-6 * abs(pair.want), 1e-300)
    allowed = max(limit.tolerance * unit + pair.cell, limit.within, pair.half if limit.covers else 0.0)
    if error > allowed:
        return "false" if error > max(pair.half, unit) and np.isfinite(pair.half) else "value"
    if pair.widths and np.isfinite(pair.half) and pair.se > 1e-6 * abs(pair.want) and not limit.covers:
        is_narrow = pair.half < min(pair.narrowest, limit.narrowest) * Z * pair.se
        is_wide = pair.half > limit.widest * Z * np.hypot(unit, pair.cell)
        return "width" if is_narrow or is_wide else "ok"
    return "ok"


def classical_faults(outcome: Outcome, limit_of: LimitOf) -> dict[str, str]:
    """Return the worst pair of each kind of fault, unless there is a caution."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in [] if outcome.cautions else outcome.pairs:
        found[verdict(pair, limit_of(pair))].append(pair)
    return {kind: shown(each) for kind, each in found.items() if kind not in ("ok", "no interval")}


def shown(found: list[Pair]) -> str:
    worst = max(
        found, key=lambda p: abs(p.got - p.want) / max(p.se, 1e-12) if np.isfinite(p.want) else np.inf
    )
    return f"{worst.name}: {worst.got:.6g} ± {worst.half:.3g}, not {worst.want:.6g} (se {worst.se:.3g})"


def changed_faults(old: Outcome, new: Outcome, change: Change) -> dict[str, str]:
    """Return the estimates that a change of the table changes by more than a part of their half-widths."""
    if old.cautions or new.cautions or old.refused or new.refused:
        return {}
    now = {change.old_name(pair.name): pair.got for pair in new.pairs}
    stays = [(pair, scale) for pair in old.pairs if (scale := change.scale_of(pair.name)) is not None]
    return {
        f"{change.questions.__name__}: {pair.name}": f"{pair.got:.6g} ± {pair.half:.3g}, then {found:.6g}"
        for pair, scale in stays
        if abs((found := now[pair.name] / scale) - pair.got) > CHANGED * pair.half
    }


def moderate_faults(ask: Callable[[int], Outcome], limit_of: LimitOf) -> dict[str, str]:
    """Return biased and uncovered answers of 30 releases of the same rows, fewer if none is in doubt."""
    by_name: dict[str, list[Pair]] = defaultdict(list)
    for seed in range(SEEDS):
        outcome = ask(seed)
        if outcome.refused:
            return {}
        for pair in [] if outcome.cautions else outcome.pairs:
            if np.isfinite([pair.got, pair.half, pair.want]).all() and not limit_of(pair).misses:
                by_name[pair.name].append(pair)
        if seed + 1 == BATCH and all(_is_clear(found) for found in by_name.values()):
            return {}
    enough = {name: found for name, found in by_name.items() if len(found) >= SEEDS * 2 / 3}
    return dict(fault for found in enough.values() for fault in _moderate(found, limit_of))


def _errors(found: list[Pair]) -> np.ndarray:
    """Return errors, half-widths and sizes of the same estimate in several releases, (3, releases)."""
    return np.array([(p.got - p.want, p.half, abs(p.want)) for p in found]).T


def _is_clear(found: list[Pair]) -> bool:
    off, half, _ = _errors(found)
    return bool(np.sum(np.abs(off) > half) <= 1 and abs(off.mean()) < BIAS * half.mean())


def _moderate(found: list[Pair], limit_of: LimitOf) -> Iterator[tuple[str, str]]:
    off, half, size = _errors(found)
    covered = np.mean(np.abs(off) <= half + 1e-12 * size)
    text = (
        f"{found[0].name}: off by {off.mean():.4g}, sd {off.std():.3g}, half {half.mean():.3g}, {covered:.0%}"
    )
    limit = limit_of(found[0])  # of the estimate's name
    known = np.mean([limit.tolerance * p.se + p.cell for p in found])
    if abs(off.mean()) > max(limit.bias * half.mean(), 3 * off.std(ddof=1) / np.sqrt(len(off)), known):
        yield "biased", text
    if covered < FEWEST_COVERED / SEEDS:
        yield "not covered", text
