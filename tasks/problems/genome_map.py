"""What a report shows of genotypes beside its results: one release of every estimator, SNP by SNP."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import task

from data.group_difference import GroupDifference
from reports.page import Genome
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.problems.group_differences import GroupDifferences
from tasks.problems.subsamples import problem_of
from tasks.run.block import answer
from tasks.run.prepare import load_prepared
from tasks.run.run_block import one_blas_thread
from tasks.study.spec import StudySpec
from tasks.work_units import Block

FILE = "genome.json"
_DECIMALS = 6


@task(name="genome_map", **BY_KEY)
@guarded
def genome_map(key: str, block: dict[str, Any], design: Record, out: str) -> Record:
    """Write where the SNPs lie, the truth, and what the block's cells answer in the first repetition."""
    one_blas_thread()
    whole = Block.from_dict(block)
    # Several repetitions draw from children of a seed, a single one from the seed itself.
    first = replace(whole, first=0, replicates=min(2, whole.replicates))
    prepared = load_prepared(design["path"])
    assert isinstance(prepared, GroupDifference)
    draw = next(problem_of(first).draws(first, prepared))
    content = {
        "chromosomes": prepared.snps["chromosome"].astype(str).tolist(),
        "positions": prepared.snps["position"].fillna(0).astype(int).tolist(),  # some files know none
        "truth": prepared.target.round(_DECIMALS).tolist(),
        "estimates": {
            cell.key: draw.columns(answer(cell, first, draw).estimate)[:, 0].round(_DECIMALS).tolist()
            for cell in first.cells
        },
    }
    return written(Path(out) / FILE, json.dumps(content).encode())


def load_genome(spec: StudySpec, folder: Path) -> Genome | None:
    """Return what `genome_map` wrote; None for a study of something else."""
    problem = spec.head_panel.problem
    if not isinstance(problem, GroupDifferences):
        return None
    try:
        content = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None
    return Genome(
        chromosomes=tuple(content["chromosomes"]),
        positions=tuple(content["positions"]),
        truth=tuple(content["truth"]),
        s=problem.s,
        estimates={cell: tuple(values) for cell, values in content["estimates"].items()},
    )
