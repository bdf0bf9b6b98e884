"""Forecast the time (of one core) and memory of blocks from short runs on this machine.

A cell's replicates take a + b R seconds: a once in a block, b for each, from runs of one replicate and of a
few, at the smallest and the largest size of a panel; between them times follow a power of n. Medians of
earlier runs, where there are any, take the place of b.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reports.analysis.results import timings_path
from tasks.cells import Cell
from tasks.problems.problem import Block
from tasks.run.block import compute_block

_FEW = 6  # replicates, at most, of the longest of the short runs
_DATA, _BYTES = "data", "bytes"  # what is measured in addition to kinds of cells
Kind = tuple[object, ...] | str


@dataclass(frozen=True, kw_only=True)
class PerReplicate:
    """Seconds, or bytes, that are needed once in a block, for each replicate, and in the first block."""

    once: float
    each: float
    first: float = 0.0

    def of(self, replicates: int, *, first: bool = False) -> float:
        return self.once + self.each * replicates + (self.first if first else 0.0)


Costs = Mapping[Kind, PerReplicate]  # of a panel at one size


@dataclass(frozen=True, kw_only=True)
class BlockCost:
    """Seconds of a block on one core, by estimator and for its data, and its memory at most."""

    block: Block
    cells: Mapping[str, float]
    drawing: float
    n_bytes: float

    @property
    def seconds(self) -> float:
        return self.drawing + sum(self.cells.values())


def costs_of(
    blocks: Sequence[Block], load: Callable[[Block], Any], earlier: Mapping[str, float]
) -> list[BlockCost]:
    """Forecast each block's cost; ``earlier`` are cells' seconds of a replicate in earlier runs."""
    costs = []
    for panel in dict.fromkeys(block.replicates.panel for block in blocks):
        of_panel = [block for block in blocks if block.replicates.panel == panel]
        prepared = load(of_panel[0])
        sizes = [block.replicates.n for block in of_panel]
        measured = {n: _measured(of_panel, n, prepared, earlier) for n in {min(sizes), max(sizes)}}
        costs += [_cost(block, measured) for block in of_panel]
    return costs


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


def _measured(of_panel: Sequence[Block], n: int, prepared: Any, earlier: Mapping[str, float]) -> Costs:
    """Measure the largest block of a size, without and with what the first run alone has to compute."""
    block = max((each for each in of_panel if each.replicates.n == n), key=lambda each: each.replicates.count)
    cells = {_kind(cell): cell for cell in block.cells}
    few = max(1, min(block.replicates.count, _FEW))
    first, again, more = (_short_run(block, cells, prepared, count) for count in (1, 1, few))
    lines = {what: _line(again[what], more[what], few) for what in again}
    for kind in cells:
        known = [earlier[cell.key] for cell in block.cells if _kind(cell) == kind and cell.key in earlier]
        line = PerReplicate(once=0.0, each=float(np.median(known))) if known else lines[kind]
        lines[kind] = replace(line, first=max(0.0, first[kind] - again[kind]))
    return lines


def _line(one: float, more: float, few: int) -> PerReplicate:
    each = (more - one) / (few - 1) if few > 1 and more > one else more / few
    return PerReplicate(once=max(0.0, one - each), each=each)


def _short_run(block: Block, cells: Mapping[Kind, Cell], prepared: Any, replicates: int) -> dict[Kind, float]:
    """Run some replicates of a block; return seconds by kind of cell and for the data, and peak bytes."""
    drawn = replace(block.replicates, first=0, count=replicates, of=replicates)
    times: list[pd.DataFrame] = []
    before = _begin_peak()
    core, wall = time.process_time(), time.perf_counter()
    compute_block(replace(block, cells=tuple(cells.values()), replicates=drawn), prepared, timings=times)
    core, wall = time.process_time() - core, time.perf_counter() - wall
    seconds = pd.concat(times).groupby("cell")["seconds"].sum() * (core / wall)
    kinds_seconds: dict[Kind, float] = {kind: float(seconds[cell.key]) for kind, cell in cells.items()}
    # Cells of one question share one answer, whose seconds each of them reports.
    answers = {cell.question: float(seconds[cell.key]) for cell in cells.values()}
    kinds_seconds[_DATA] = max(0.0, core - sum(answers.values()))
    kinds_seconds[_BYTES] = max(0.0, _memory("VmHWM") - before)
    return kinds_seconds


def _cost(block: Block, measured: Mapping[int, Costs]) -> BlockCost:
    seconds: dict[str, float] = {}
    answered = {cell.question: cell for cell in block.cells}  # cells of one question share an answer
    for cell in answered.values():
        seconds[cell.estimator] = seconds.get(cell.estimator, 0.0) + _interpolated(
            block, measured, _kind(cell)
        )
    drawing, n_bytes = (_interpolated(block, measured, what) for what in (_DATA, _BYTES))
    return BlockCost(block=block, cells=seconds, drawing=drawing, n_bytes=n_bytes)


def _interpolated(block: Block, measured: Mapping[int, Costs], what: Kind) -> float:
    """Interpolate a cost between the measured sizes as a power of n."""
    drawn = block.replicates
    known = {n: costs[what].of(drawn.count, first=drawn.first == 0) for n, costs in measured.items()}
    (low, least), (high, most) = min(known.items()), max(known.items())
    if low == high or min(least, most) <= 0:
        return most
    return float(least * (most / least) ** (np.log(drawn.n / low) / np.log(high / low)))


def _kind(cell: Cell) -> Kind:
    """Return what determines a cell's time in a panel, apart from its size."""
    return (cell.estimator, cell.form, cell.steps, cell.calibration, cell.s)


def _begin_peak() -> float:
    """Reset the process's peak memory, where the system allows it; return the current memory in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0.0)
