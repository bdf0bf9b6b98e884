"""Forecast the time and memory of blocks from short runs on this machine.

A cell's replicates take a + b R seconds: a once in a block, for what they share, b for each. Both follow from
runs of one replicate and of a few; what one replicate took more when it was first run, for what is calibrated
and then cached, is counted in one block of a size. Cells that differ in ε and δ alone take as long as one
another, and between the smallest and the largest size of a panel times follow a power of n, so that few
blocks have to be run. Times of earlier runs, where there are any, take the place of b.

Seconds are those of one core: what else the machine does while they are measured does not count.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reports.analysis.results import timings_path
from tasks.run.block import compute_block
from tasks.study.block import Block
from tasks.work_units import Cell, Replicates

_FEW = 6  # replicates, at most, beyond the first
Kind = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PerReplicate:
    """Seconds, or bytes, that are needed once in a block, for each replicate, and in the first block."""

    once: float
    each: float
    first: float = 0.0

    def of(self, replicates: int, *, first: bool = False) -> float:
        """Return the cost of some replicates in one block."""
        return self.once + self.each * replicates + (self.first if first else 0.0)


@dataclass(frozen=True, kw_only=True)
class BlockCost:
    """Time and memory of a block.

    Attributes
    ----------
    block : Block
    cells : mapping of str to float
        Seconds by estimator, on one core.
    drawing : float
        Seconds for reading and drawing the data.
    n_bytes : float
        Memory at most, beside what the process holds anyway.
    """

    block: Block
    cells: Mapping[str, float]
    drawing: float
    n_bytes: float

    @property
    def seconds(self) -> float:
        """Return the seconds of the block on one core."""
        return self.drawing + sum(self.cells.values())


def costs_of(
    blocks: Sequence[Block], load: Callable[[Block], Any], earlier: Mapping[str, float]
) -> list[BlockCost]:
    """Return the forecast for each block of a study.

    Parameters
    ----------
    blocks : sequence of Block
    load : callable
        Block → what its problem has prepared, None where data are simulated.
    earlier : mapping of str to float
        Cell → seconds of a replicate in earlier runs (:func:`earlier_seconds`).
    """
    found = []
    for panel in dict.fromkeys(block.replicates.panel for block in blocks):
        own = [block for block in blocks if block.replicates.panel == panel]
        prepared = load(own[0])
        sizes = sorted({block.replicates.n for block in own})
        measured = {n: _measured(own, n, prepared, earlier) for n in dict.fromkeys((sizes[0], sizes[-1]))}
        found += [_cost(block, measured) for block in own]
    return found


def wall_seconds(costs: Iterable[BlockCost], workers: int) -> float:
    """Return the wall time of blocks on some workers, each taking the longest that is left."""
    busy = np.zeros(workers)
    for cost in sorted(costs, key=lambda cost: -cost.seconds):
        busy[busy.argmin()] += cost.seconds
    return float(busy.max())


def memory_at_once(costs: Iterable[BlockCost], workers: int) -> float:
    """Return the bytes of the largest blocks that can run side by side."""
    return float(sum(sorted((cost.n_bytes for cost in costs), reverse=True)[:workers]))


def earlier_seconds(blocks_folder: Path, study: str) -> dict[str, float]:
    """Return cell → median seconds of a replicate in the stored blocks of a study."""
    paths = blocks_folder.glob(timings_path("*.parquet").name)
    parts = [part[part["study"] == study] for part in map(pd.read_parquet, paths)]
    if not parts:
        return {}
    return {str(cell): float(s) for cell, s in pd.concat(parts).groupby("cell")["seconds"].median().items()}


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """Measurements of a panel at one size: each kind of cell, drawing, memory."""

    kinds: Mapping[Kind, PerReplicate]
    drawing: PerReplicate
    n_bytes: PerReplicate

    def like(self, kind: Kind) -> PerReplicate | None:
        """Return the cost of a kind of cell, or of the same estimator with other settings."""
        alike = (cost for other, cost in self.kinds.items() if other[:-1] == kind[:-1])
        return self.kinds.get(kind) or next(alike, None)


def _measured(own: Sequence[Block], n: int, prepared: Any, earlier: Mapping[str, float]) -> _Measured:
    block = max((block for block in own if block.replicates.n == n), key=lambda block: block.replicates.count)
    cells = {_kind(cell): cell for cell in block.cells}
    few = max(1, min(block.replicates.count, _FEW))
    runs = [_short_run(block, tuple(cells.values()), prepared, replicates) for replicates in (1, 1, few)]
    kinds = {}
    for kind, cell in cells.items():
        first, again, more = (run[0][cell.key] for run in runs)
        known = [earlier[c.key] for c in block.cells if _kind(c) == kind and c.key in earlier]
        kinds[kind] = (
            PerReplicate(once=0.0, each=float(np.median(known)), first=max(0.0, first - again))
            if known
            else replace(_line(again, more, few), first=max(0.0, first - again))
        )
    return _Measured(
        kinds=kinds,
        drawing=_line(runs[1][1], runs[2][1], few),
        n_bytes=_line(runs[1][2], runs[2][2], few),
    )


def _line(one: float, more: float, few: int) -> PerReplicate:
    """Return the line through the costs of one replicate and of a few."""
    each = (more - one) / (few - 1) if few > 1 and more > one else more / few
    return PerReplicate(once=max(0.0, one - each), each=each)


def _short_run(
    block: Block, cells: tuple[Cell, ...], prepared: Any, replicates: int
) -> tuple[dict[str, float], float, float]:
    """Run some replicates of a block; return seconds by cell, the other seconds, and peak bytes."""
    drawn = replace(block.replicates, first=0, count=replicates, of=replicates)
    short = replace(block, cells=cells, replicates=drawn)
    times: list[pd.DataFrame] = []
    before = _begin_peak()
    core, wall = time.process_time(), time.perf_counter()
    compute_block(short, prepared, timings=times)
    core, wall = time.process_time() - core, time.perf_counter() - wall
    seconds = pd.concat(times).groupby("cell")["seconds"].sum() * (core / wall)
    by_cell = {cell.key: float(seconds[cell.key]) for cell in cells}
    return by_cell, max(0.0, core - float(seconds.sum())), max(0.0, _peak() - before)


def _cost(block: Block, measured: Mapping[int, _Measured]) -> BlockCost:
    seconds: dict[str, float] = {}
    seen = set()
    for cell in block.cells:
        if cell.question not in seen:  # cells of one question share an answer
            seen.add(cell.question)
            value = _at(block.replicates, {n: m.like(_kind(cell)) for n, m in measured.items()})
            seconds[cell.estimator] = seconds.get(cell.estimator, 0.0) + value
    return BlockCost(
        block=block,
        cells=seconds,
        drawing=_at(block.replicates, {n: m.drawing for n, m in measured.items()}),
        n_bytes=_at(block.replicates, {n: m.n_bytes for n, m in measured.items()}),
    )


def _at(replicates: Replicates, costs: Mapping[int, PerReplicate | None]) -> float:
    """Interpolate a cost between the measured sizes as a power of n."""
    known = {
        size: cost.of(replicates.count, first=replicates.first == 0)
        for size, cost in costs.items()
        if cost is not None
    }
    if not known:
        return 0.0
    (low, first), (high, last) = min(known.items()), max(known.items())
    if low == high or min(first, last) <= 0:
        return last
    return float(first * (last / first) ** (np.log(replicates.n / low) / np.log(high / low)))


def _kind(cell: Cell) -> Kind:
    """Return what determines a cell's time, apart from its size."""
    settings = {name: value for name, value in cell.params.items() if name.startswith("n_")}
    return (
        cell.estimator,
        cell.panel,
        cell.form,
        str(cell.steps),
        cell.calibration,
        str(cell.s),
        json.dumps(settings, sort_keys=True, default=str),
    )


def _begin_peak() -> float:
    """Reset the process's peak memory, where the system allows it; return the current memory in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _peak() -> float:
    return _memory("VmHWM")


def _memory(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0.0)
