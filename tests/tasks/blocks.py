"""Cells, blocks and reports for tests of what is computed in them."""

import numpy as np
import pandas as pd
import pytest

import dpalgos
from flows.studies.find_study import STUDIES, find_study
from reports.analysis.results import COLUMNS
from tasks.cache import UNCACHED
from tasks.cells import Cell, Replicates
from tasks.problems.kinds import kinds
from tasks.problems.problem import Block, DatasetSource
from tasks.report.manifest import build_manifest
from tasks.report.write import write_report
from tasks.run.block import run_block
from tasks.run.collect import collect
from tasks.run_options import RunOptions

SMALLER = (
    ("n = [5000, 10000, 20000, 40000, 60000, 80000, 100000]", "n = [200, 20000]"),
    ('d = "2*n", s = 20', 'd = "n/10", s = 2'),
    ("n = [2000, 2500, 3000, 3500, 4000]", "n = [100, 300]"),
)


def made_cell(estimator, *, n, panel="one", epsilon=1.0, delta=1e-3, calibration="tight", form="", **params):
    """Return a cell; ε, δ and calibration are those of private estimators."""
    asked = {"calibration": "none", "epsilon": None, "delta": None, "delta_rule": ""}
    if dpalgos.get_estimator(estimator).private:
        asked = {"calibration": calibration, "epsilon": epsilon, "delta": delta, "delta_rule": f"{delta:g}"}
    return Cell(estimator=estimator, panel=panel, form=form, n=n, params=params, **asked)


def made_problem(kind, **settings):
    return kinds()[kind](kind=kind, **settings)


def made_answer(estimate):
    return dpalgos.api.Result(
        estimate=np.asarray(estimate), certified_epsilon=1.0, delta=1e-5, events=(), diagnostics={}
    )


def made_block(problem, *cells, n, replicates=3, first=0, of=None, study="mine", panel="one", seed=7):
    drawn = Replicates(
        study=study,
        panel=panel,
        n=n,
        first=first,
        count=replicates,
        of=replicates if of is None else of,
        n_cells=len(cells),
        seed=seed,
    )
    source = "real" if isinstance(problem, DatasetSource) else "simulated"
    return Block(replicates=drawn, problem=problem, data_source=source, work=1, cells=cells)


def prepared_data(problem, table, folder):
    suffix, content = problem.prepare(table)
    (folder / f"design{suffix}").write_bytes(content)
    return problem.load(folder / f"design{suffix}")


def results_table(values, *, status="ok", cell="ols:public:n=100"):
    row = dict.fromkeys(COLUMNS, np.nan) | dict.fromkeys(("form", "delta_rule"), "")
    row |= {"study": "housing", "dataset": "housing", "data_source": "real", "estimator": "ols"}
    row |= {"panel": "public", "cell": cell, "calibration": "none", "privacy_model": "none", "n": 100, "d": 6}
    row |= {"replicate": np.arange(len(values)), "seed": 1, "metric": "l2_error", "status": status}
    row |= {"steps": pd.NA, "s": pd.NA, "message": "" if status == "ok" else "it failed"}
    return pd.DataFrame(row | {"value": np.array(values) if status == "ok" else np.nan})


def context(study, **given):
    options = RunOptions(**{"study": str(study), "reps": 3, "seed": 1} | given)
    return {"options": options, "command": "dpcost run", "started": "2026-01-01T00:00:00+00:00"}


def written_report(study, folder, replicates):
    """Run a study on simulated data; write its report below a folder, and return its record."""
    blocks = study.blocks("standard", replicates=replicates, seed=1)
    paths = [str(folder / f"{number}.parquet") for number in range(len(blocks))]
    parts = [run_block(UNCACHED, block, None, path) for block, path in zip(blocks, paths, strict=True)]
    results = collect(UNCACHED, parts, [], str(folder / "out"))
    manifest = build_manifest(study, [], results, context(f"{study.name}.toml", reps=replicates))
    return write_report(study, folder / "out" / "results.parquet", manifest)


def small_means(folder):
    text = (STUDIES / "mean_comparison.toml").read_text()
    for old, new in SMALLER:
        assert old in text
        text = text.replace(old, new)
    (folder / "means.toml").write_text(text)
    return folder / "means.toml"


def refused_study(folder, text, old, new):
    assert old in text
    (folder / "mine.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError) as refused:
        find_study(str(folder / "mine.toml"))
    assert "\n" not in str(refused.value)
    return str(refused.value)
