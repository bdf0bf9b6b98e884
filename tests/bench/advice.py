"""How near `dpcost advise` comes: errors foreseen from public guesses beside those measured on the tables."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from data.ingest import to_parquet
from data.raw_files import fetch, mirror_from_environment
from data.registry import get_dataset
from flows.find_study import find_study
from tasks.advise import advise, form_of, with_least_noise
from tasks.run.block import compute_block
from tasks.study.panel import Grid
from tasks.study.spec import StudySpec
from tests.bench.goals import Goal

STUDIES = ("housing", "fair", "rand_conditions", "rand_visits")
REPLICATES = 60


def bench_advice() -> dict:
    """Compare forecasts at the headline's size: how many are near, how many ranges hold the truth."""
    cells = pd.concat([_compared(name) for name in STUDIES], ignore_index=True)
    ratio = cells["foreseen"] / cells["measured"]
    near = (ratio - 1).abs() <= 0.25
    double = ratio.between(0.5, 2)
    held = (cells["low"] <= cells["measured"]) & (cells["measured"] <= cells["high"])
    width = float((cells["high"] / cells["low"]).median())
    return {
        "figure": f"of {len(cells)} forecasts ({cells['estimator'].nunique()} estimators, {len(STUDIES)} "
        f"studies) {near.sum()} within 25 % of what was measured, {double.sum()} within a factor of two; "
        f"{held.sum()} ranges hold it, whose ends are a factor of {width:.2g} apart (median)",
        "wanted": "within 25 %; where declarations leave more open, a range that says so",
        "goals": [
            Goal(what="forecasts within 25 %", values=[100 * near.mean()], wanted=100, unit="%"),
            Goal(what="ranges that hold what was measured", values=[100 * held.mean()], wanted=80, unit="%"),
        ],
        "cells": cells.to_dict("records"),
    }


def _compared(study: str) -> pd.DataFrame:
    spec = _at_headline(find_study(study))
    problem, dataset = spec.head_panel.problem, get_dataset(spec.head_panel.problem.source)
    with TemporaryDirectory() as folder:
        home = Path(folder)
        raw = fetch(dataset, home=home, mirror=mirror_from_environment(), offline=False)
        design = problem.prepare(to_parquet(dataset, raw, home=home))
        (home / f"design{design[0]}").write_bytes(design[1])
        prepared = problem.load(home / f"design{design[0]}")
    blocks = spec.blocks("paper", replicates=REPLICATES, seed=2)
    rows = pd.concat(compute_block(block, prepared) for block in blocks)
    rows = rows[rows["metric"] == problem.metric]
    rows = rows.assign(form=[form_of(variant, spec.head_panel.name) for variant in rows["variant"]])
    measured = rows.groupby(["estimator", "form", "epsilon"])["value"].mean()
    return pd.DataFrame(
        {
            "study": study,
            "estimator": each.estimator,
            "form": each.form,
            "epsilon": each.epsilon,
            "foreseen": each.error,
            "low": each.low,
            "high": each.high,
            "measured": measured[each.estimator, each.form, each.epsilon],
        }
        for each in advise(spec).forecasts
        if each.private and not each.refused
    )


def _at_headline(spec: StudySpec) -> StudySpec:
    """Return the headline's panel alone, at its size and delta, with the least noise that is proved."""
    panel, head = with_least_noise(spec), spec.headline
    grid = Grid(n=(head.n,), epsilon=spec.grid_of(panel).epsilon, delta=(head.delta,))
    return spec.model_copy(update={"panels": (panel.model_copy(update={"grid": grid}),)})
