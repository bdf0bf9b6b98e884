"""The swarm study's report on a small stand-in: printed numbers and ours, pictures, what is not shown."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile
from data.prepare.frame_features import scales
from data.store.references import FramesRef
from flows.studies.find_study import find_study
from tasks.report.manifest import build_manifest
from tasks.report.write import write_report
from tasks.run.block import write_block
from tasks.run.headline import write_exhibits
from tests.tasks.blocks import made_results, result_at, run_of

SMALL = 192


def exhibits(folder, block, ref, parts):
    shown = result_at(folder / "shown.json")
    write_exhibits(shown, block, ref, None, parts)
    return json.loads(shown.path.read_bytes())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swarm")
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    ref = to_parquet(get_dataset("swarm"), raw, home=folder, stand_in_rows=SMALL)
    spec = find_study("swarm")
    blocks = spec.blocks("standard", replicates=2, seed=1, data_sources={"swarm": "stand-in"})
    whole = next(block for block in blocks if block.replicates.panel == "public")
    wanted = {
        ("iht_glm", "none"),
        ("screened_sparse_glm", "tight"),
        ("dp_sparse_glm", "paper"),
        ("zero", "none"),
    }
    cells = [
        replace(cell, n=SMALL // 2)
        for cell in whole.cells
        if (cell.estimator, cell.calibration) in wanted and cell.s == 100 and cell.epsilon in (None, 0.5)
    ]
    block = replace(whole, replicates=replace(whole.replicates, n=SMALL // 2), cells=tuple(cells))
    design, part = result_at(folder / "design.json"), result_at(folder / "1.parquet")
    design.write(json.dumps(scales(ref, get_dataset("swarm"), "public").to_dict()).encode())
    write_block(part, block, design)
    results = made_results([part], folder / "out")
    manifest = build_manifest(spec, run_of("swarm", profile="smoke", reps=2), {"swarm": ref}, results)
    write_report(spec, results.path, manifest, json.dumps(exhibits(folder, block, ref, [part])).encode())
    return folder / "out", ref, part, block


def test_every_output_says_that_the_flock_is_simulated(made):
    out, *_ = made
    assert set(pd.read_parquet(out / "results.parquet")["data_source"]) == {"stand-in"}
    for name in ("report.md", "report.html"):
        assert "STAND-IN DATA: simulated, not the real data set" in (out / name).read_text()
    figures = list((out / "figures").glob("*.svg"))
    assert {"film.svg", "roc.svg", "selected.svg", "main.svg"} <= {figure.name for figure in figures}
    for figure in figures:
        assert "stand-in data" in figure.read_text().lower(), figure.name


def test_real_frames_are_never_shown(made, tmp_path):
    _, ref, part, block = made
    assert isinstance(ref, FramesRef)
    real = replace(ref, data_source="real", origin="store", reasons=())
    content = exhibits(tmp_path, block, real, [part])
    assert set(content) == {"classification", "boids"}
    assert content["boids"]["film"] == []
