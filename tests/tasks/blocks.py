"""Cells, blocks and reports for tests of what is computed in them."""

from pathlib import Path

import numpy as np
import pandas as pd

import dpalgos
from data.results.table import COLUMNS
from data.store.code_digest import code_digest
from tasks.cache import Target
from tasks.cells import Cell, Replicates
from tasks.problems.kinds import kinds, measure_of
from tasks.problems.problem import DatasetSource
from tasks.report.manifest import RunOfStudy
from tasks.run.collect import write_results
from tasks.run_options import RunOptions
from tasks.study.expand import Block

STEPS = Path(__file__).with_name("steps.toml")  # a study by the number of steps


def made_cell(estimator, *, n, panel="one", epsilon=1.0, delta=1e-3, calibration="tight", form="", **params):
    """Return a cell; ε, δ and calibration are those of private estimators."""
    asked = {"calibration": "none", "epsilon": None, "delta": None, "delta_rule": ""}
    if dpalgos.get_estimator(estimator).private:
        asked = {"calibration": calibration, "epsilon": epsilon, "delta": delta, "delta_rule": f"{delta:g}"}
    return Cell(estimator=estimator, panel=panel, form=form, n=n, params=params, **asked)


def made_problem(kind, **settings):
    return kinds()[kind].source(kind=kind, **settings)


def measured_of(problem, draw, answer):
    return measure_of(problem).measure(problem.traits, draw, answer)


def metrics_of(problem, measured):
    return measure_of(problem).metrics(problem.traits, measured)


def made_answer(estimate):
    about = {"certified_epsilon": 1.0, "delta": 1e-5, "events": (), "diagnostics": {}}
    return dpalgos.Result(estimate=np.asarray(estimate), **about)


def made_block(problem, *cells, n, replicates=3, study="mine", panel="one", seed=7):
    count = {"first": 0, "count": replicates, "of": replicates}
    drawn = Replicates(study=study, panel=panel, n=n, seed=seed, **count)
    source = "real" if isinstance(problem, DatasetSource) else "simulated"
    return Block(replicates=drawn, problem=problem, data_source=source, work=1, n_bytes=0, cells=cells)


def prepared_data(problem, table, folder):
    path = folder / "design.npz"
    path.write_bytes(problem.prepare(table))
    return problem.load(path)


def result_at(path, *modules):
    roots = modules or ("tasks.run.compute",)
    return Target(str(path), roots, code_digest(roots))


def made_results(parts, folder, audits=()):
    return write_results([part.path for part in parts], [audit.path for audit in audits], folder)


def results_table(values, *, status="ok", cell="ols:public:n=100"):
    row = dict.fromkeys(COLUMNS, np.nan) | dict.fromkeys(("form", "delta_rule"), "")
    row |= {"study": "housing", "dataset": "housing", "data_source": "real", "estimator": "ols"}
    row |= {"panel": "public", "cell": cell, "calibration": "none", "privacy_model": "none", "n": 100, "d": 6}
    row |= {"replicate": np.arange(len(values)), "seed": 1, "metric": "l2_error", "status": status}
    row |= {"steps": pd.NA, "s": pd.NA, "message": "" if status == "ok" else "it failed"}
    return pd.DataFrame(row | {"value": np.array(values) if status == "ok" else np.nan})


def run_of(study, **given):
    options = RunOptions(**{"reps": 3, "seed": 1} | given)
    started = "2026-01-01T00:00:00+00:00"
    return RunOfStudy(study=str(study), options=options, command="dpcost run", started=started)
