"""Accuracy of `dpcost advise`: errors predicted from public guesses against those measured on the tables.

And what is unknown to an owner: errors on tables that are made up from the true moments and effects, which an
owner could not state without a cost in privacy. What is left there is the simulation's own fault.
"""

from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

from data.fetch.ingest import to_parquet
from data.fetch.raw_files import fetch, mirror_from_environment
from data.registry import get_dataset
from flows.studies.find_study import find_study
from tasks.advise import advise, with_least_noise
from tasks.problems.declared_rows import FAMILY_SPREAD
from tasks.problems.guesses import Guesses
from tasks.run.block import compute_block
from tasks.study.panel import Grid
from tasks.study.spec import StudySpec
from tests.bench.goals import Goal, Measurement

_FAMILIES = {"logistic": sm.families.Binomial, "poisson": sm.families.Poisson}
STUDIES = ("housing", "fair", "rand_conditions", "rand_visits")


def bench_advice(small: bool = False) -> Measurement:
    """Compare forecasts at the headline's size: how many are near, how many ranges hold the truth."""
    studies, replicates, tables = (STUDIES[:1], 2, 1) if small else (STUDIES, 60, 4)
    cells = pd.concat([_compared(name, replicates, tables) for name in studies], ignore_index=True)
    near, double = _near(cells["foreseen"] / cells["measured"])
    truly_near, truly_double = _near(cells["of_true_moments"] / cells["measured"])
    held = (cells["low"] <= cells["measured"]) & (cells["measured"] <= cells["high"])
    width = float((cells["high"] / cells["low"]).median())
    return Measurement(
        figure=f"of {len(cells)} forecasts ({cells['estimator'].nunique()} estimators, {len(studies)} "
        f"studies) {near} within 25 % of what was measured, {double} within a factor of two; "
        f"{held.sum()} ranges hold it, whose ends are a factor of {width:.2g} apart (median); of "
        f"tables made up from true moments {truly_near} within 25 %, {truly_double} within a factor of two",
        goals=[
            Goal(what="forecasts within 25 %", values=[100 * near / len(cells)], wanted=100, unit="%"),
            Goal(what="ranges that hold what was measured", values=[100 * held.mean()], wanted=80, unit="%"),
        ],
        data=", ".join(dict.fromkeys(cells["data"])),
        details={"cells": cells.to_dict("records")},
    )


def _near(ratio: pd.Series) -> tuple[int, int]:
    """Return how many forecasts are within 25 %, and within a factor of two."""
    return int(((ratio - 1).abs() <= 0.25).sum()), int(ratio.between(0.5, 2).sum())


def _compared(study: str, replicates: int, n_tables: int) -> pd.DataFrame:
    spec = _at_headline(find_study(study))
    problem, dataset = spec.head_panel.problem, get_dataset(spec.head_panel.problem.source)
    with TemporaryDirectory() as folder:
        home = Path(folder)
        raw = fetch(dataset, home=home, mirror=mirror_from_environment(), offline=False)
        table = to_parquet(dataset, raw, home=home)
        frame = pd.read_parquet(home / table.path)
        design = problem.prepare(table)
        (home / f"design{design[0]}").write_bytes(design[1])
        prepared = problem.load(home / f"design{design[0]}")
    measured = _errors(spec, prepared, replicates, seed=2)
    truth = true_guesses(problem, frame)
    made_up = [problem.made_up(len(frame), truth, np.random.default_rng(seed)) for seed in range(n_tables)]
    of_true_moments = sum(
        _errors(spec, each, replicates // n_tables, seed=seed) / n_tables for seed, each in enumerate(made_up)
    )
    return pd.DataFrame(
        {
            "study": study,
            "data": f"{table.name} ({table.data_source})",
            "estimator": each.estimator,
            "form": each.form,
            "epsilon": each.epsilon,
            "foreseen": each.error,
            "low": each.low,
            "high": each.high,
            "measured": measured[each.estimator, each.form, each.epsilon],
            "of_true_moments": of_true_moments[each.estimator, each.form, each.epsilon],
        }
        for each in advise(spec).forecasts
        if each.private and not each.refused
    )


def _errors(spec: StudySpec, prepared: Any, replicates: int, seed: int) -> pd.Series:
    """Return mean errors by estimator, form and ε."""
    blocks = spec.blocks("paper", replicates=replicates, seed=seed)
    rows = pd.concat(compute_block(block, prepared) for block in blocks)
    rows = rows[rows["metric"] == spec.head_panel.problem.metric]
    return rows.groupby(["estimator", "form", "epsilon"])["value"].mean()


def true_guesses(problem: Any, frame: pd.DataFrame) -> Guesses:
    """Return a table's own moments and effects as guesses; for this comparison alone, they are not public."""
    names, response = list(problem.covariates), problem.response
    X, y = frame[names].astype(float), frame[response].astype(float)
    design = sm.add_constant((X - X.mean()) / X.std())
    family = problem.family
    model = sm.GLM(y, design, family=_FAMILIES[family]()) if family else sm.OLS(y / y.std(), design)
    effects = model.fit().params.iloc[1:]
    along = float((design.iloc[:, 1:] @ effects).var())
    # As `declared_rows` has it: chance has a family's variance on the scale of the linear predictor.
    explained = along / (along + FAMILY_SPREAD[family] ** 2) if family else along
    pairs = X.corr()
    return Guesses(
        correlation=0.0,
        correlations=tuple(
            (one, other, float(pairs.loc[one, other])) for one, other in combinations(names, 2)
        ),
        explained=explained,
        effects=effects.to_dict(),
        mean=frame[[*names, response]].mean().to_dict(),
        std=frame[[*names, response]].std().to_dict(),
    )


def _at_headline(spec: StudySpec) -> StudySpec:
    """Return the headline's panel alone, at its size and delta, with the least noise that is proved."""
    panel, head = with_least_noise(spec), spec.headline
    grid = Grid(n=(head.n,), epsilon=spec.grid_of(panel).epsilon, delta=(head.delta,))
    return spec.model_copy(update={"panels": (panel.model_copy(update={"grid": grid}),)})
