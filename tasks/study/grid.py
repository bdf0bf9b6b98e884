"""What of a study is computed: its blocks, and the ones that its headline needs."""

from collections.abc import Mapping
from dataclasses import replace

from data.store.references import DatasetRef
from tasks.run_options import RunOptions
from tasks.study.block import Block
from tasks.study.spec import StudySpec


def expand(spec: StudySpec, options: RunOptions, tables: Mapping[str, DatasetRef]) -> list[Block]:
    """Return the blocks of a study with these options, in the order of its results."""
    return spec.blocks(
        options.profile,
        replicates=options.reps or spec.replicates[options.profile],
        seed=options.seed,
        data_sources={dataset: table.data_source for dataset, table in tables.items()},
    )


def longest_block(spec: StudySpec, options: RunOptions) -> int:
    """Return the work of a study's longest block."""
    return max(block.work for block in expand(spec, options, {}))


def headline_block(spec: StudySpec, blocks: list[Block]) -> Block:
    """Return a block of the headline's panel at the nearest size, with the cells of the headline alone."""
    of_panel = [block for block in blocks if block.replicates.panel == spec.headline.panel]
    nearest = min(of_panel, key=lambda block: abs(block.replicates.n - spec.headline.n))
    without = [cell for cell in nearest.cells if cell.calibration == "none"]
    return replace(nearest, cells=(*without, *spec.headline_cells(blocks)))
