"""Errors of the best private estimates and their goals, each row measured in one run.

Where a wanted figure is out of reach, the row also says what the same estimator reaches when noise costs next
to nothing: the limit of its method, not of the budget.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.datasets import load_digits

import dpalgos
from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw_files import fetch_or_stand_in
from data.store.folders import mirror_from_environment
from flows.studies.find_study import find_study
from tasks.problems.problem import DatasetSource, Problem
from tasks.run.block import compute_block
from tasks.study.panel import Grid
from tests.bench.goals import Goal, Measurement
from tests.tasks.blocks import prepared_data

FREE = 100.0  # an ε whose noise is next to nothing
HOUSING = ((20_000, 0.5, "10/n^1.1", 0.105), (2_000, 0.5, "10/n^1.1", 0.17), (16_512, 10.0, "1/n^2", 0.06))
SPARSE = {"s 10": 0.09, "s 20": 0.15, "s 40": 0.25}
SWARM = {25: 1.0, 50: 1.05, 100: 1.1}
COLUMNS = 100
# Of other images, on which hard thresholding without privacy has .17, wanted were .20 and .175.
IMAGES_WANTED = {0.5: 1.18, 2.0: 1.03}


def bench_accuracy_housing(small: bool = False) -> Measurement:
    goals, data = [], ""
    for n, epsilon, delta, wanted in HOUSING[1:2] if small else HOUSING:
        grid = Grid(n=(n,), epsilon=(epsilon,), delta=(delta,))
        replicates = 2 if small else 300
        errors, data = _errors("housing", ("preconditioned_regression",), grid, replicates=replicates)
        goals.append(_goal(f"housing, {n:,} rows, ε = {epsilon:g}: coefficient error", errors, wanted))
    return _measurement(goals, data)


def bench_accuracy_sparse_logistic(small: bool = False) -> Measurement:
    goals, free, data = [], [], ""
    n, replicates = (50, 2) if small else (40_000, 30)
    for panel, wanted in list(SPARSE.items())[: 1 if small else None]:
        grid = Grid(n=(n,), epsilon=(0.5, FREE), delta=("1/(2*n)",))
        found, data = _errors(
            "glm_sparse", ("screened_sparse_glm",), grid, panel=panel, replicates=replicates
        )
        goals.append(_goal(f"sparse logistic, {panel}, ε = .5: error", found[found.epsilon == 0.5], wanted))
        free.append(f"{found[found.epsilon == FREE]['value'].mean():.3f}")
    return _measurement(goals, data, f"without noise (ε = {FREE:g}) {', '.join(free)}")


def bench_accuracy_swarm(small: bool = False) -> Measurement:
    """Measure screening against hard thresholding without privacy on the swarm."""
    n, sizes, replicates = (100, (25,), 2) if small else (12_008, tuple(SWARM), 30)
    grid = Grid(n=(n,), s=sizes, epsilon=(0.5, FREE), delta=("1/(2*n)",))
    estimators = ("screened_sparse_glm", "iht_glm")
    found, data = _errors("swarm", estimators, grid, panel="public", replicates=replicates, small=small)
    mean = found.groupby(["estimator", "epsilon", "s"])["value"].mean()
    goals, free = [], []
    for s in sizes:
        plain = found[(found.estimator == "iht_glm") & (found.s == s)]["value"].mean()
        ours = found[(found.estimator == "screened_sparse_glm") & (found.epsilon == 0.5) & (found.s == s)]
        relative = ours.assign(value=ours["value"] / plain)
        goals.append(
            _goal(f"swarm, s = {s}, ε = .5: × hard thresholding without privacy", relative, SWARM[s])
        )
        free.append(f"{mean['screened_sparse_glm', FREE, s] / plain:.3f}")
    return _measurement(goals, data, f"without noise (ε = {FREE:g}) {', '.join(free)}")


def bench_accuracy_images(small: bool = False) -> Measurement:
    """Measure screening and objective perturbation on digits as 28 × 28 images: odd or even?"""
    n, repeated = (60, 2) if small else (6000, 60)
    X, y, test_X, test_y = digits(n, seed=0)
    d, budget = X.shape[1], {"delta": 1 / n**2, "family": "logistic"}
    candidates = {
        "screened_sparse_glm": {
            "covariate_bound": 3.0,
            "covariate_second_moment": 1.0,
            "sparsity": COLUMNS,
            "fit": "preconditioned",
            "n_screenings": 2,
        },
        "objective_perturbation_glm": {"covariate_bound": float(np.sqrt(d))},
    }

    def misclassified(name: str, replicates: int = 1, **keywords: object) -> np.ndarray:
        result = dpalgos.estimate(name, X, y, rng=np.random.default_rng(1), replicates=replicates, **keywords)
        return np.asarray(
            ((test_X @ result.estimate.reshape(d, -1) > 0) != (test_y > 0)[:, None]).mean(axis=0)
        )

    steps = 2 if small else 400
    plain = misclassified(
        "iht_glm", family="logistic", sparsity=COLUMNS, n_iterations=steps, step_size=0.01
    ).mean()
    goals, told = [], []
    for epsilon, wanted in IMAGES_WANTED.items():
        found = {
            name: misclassified(name, repeated, epsilon=epsilon, **budget, **keywords)
            for name, keywords in candidates.items()
        }
        best = min(found.values(), key=np.mean)
        goals.append(
            _goal(
                f"images, ε = {epsilon:g}: the better × hard thresholding without privacy",
                pd.DataFrame({"value": best / plain}),
                wanted,
            )
        )
        told.append(f"ε = {epsilon:g}: " + ", ".join(f"{name} {v.mean():.3f}" for name, v in found.items()))
    found = f"misclassified: {'; '.join(told)}; hard thresholding without privacy {plain:.3f}"
    return _measurement(goals, "scikit-learn's digits, enlarged (real)", found)


def digits(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return images to train on and to test on, in standard deviations and cut at 3, with a column of ones.

    Either half is drawn from digits of its own: enlarged, turned, shifted, with a little noise.
    """
    rng = np.random.default_rng(seed)
    data = load_digits()
    order = rng.permutation(len(data.target))
    chosen = np.concatenate([rng.choice(order[:1200], n), rng.choice(order[1200:], n // 2)])
    images = np.array([_drawn(rng, data.images[i] / 16).ravel() for i in chosen])
    scale = np.maximum(images[:n].std(axis=0), 0.05)
    Z = np.clip((images - images[:n].mean(axis=0)) / scale, -3, 3)
    X, y = np.column_stack([Z, np.ones(len(Z))]), (data.target[chosen] % 2).astype(float)
    return X[:n], y[:n], X[n:], y[n:]


def _drawn(rng: np.random.Generator, image: np.ndarray) -> np.ndarray:
    canvas = np.pad(ndimage.zoom(image, 3.0, order=1), 2)
    canvas = ndimage.rotate(canvas, rng.uniform(-12, 12), reshape=False, order=1)
    canvas = ndimage.shift(canvas, rng.uniform(-2, 2, 2), order=1)
    return np.asarray(np.clip(canvas + 0.02 * rng.standard_normal(canvas.shape), 0, 1))


def _errors(
    study: str,
    estimators: tuple[str, ...],
    grid: Grid,
    *,
    panel: str | None = None,
    replicates: int,
    small: bool = False,
) -> tuple[pd.DataFrame, str]:
    """Return errors of a study's estimators on a grid of one panel, a row each, and on which data."""
    spec = find_study(study)
    own = next(each for each in spec.panels if panel in (None, each.name))
    spec = spec.model_copy(update={"panels": (own.model_copy(update={"grid": grid}),)})
    problem, found = own.problem, []
    with TemporaryDirectory() as folder:
        prepared, data = None, f"{problem.source} (simulated)"
        if isinstance(problem, DatasetSource):
            prepared, data = _prepared(problem, Path(folder), small)
        for block in spec.blocks("paper", replicates=replicates, seed=2):
            chosen = (cell for cell in block.cells if cell.estimator in estimators)
            cells = tuple(cell for cell in chosen if cell.calibration != "paper")
            if cells:
                found.append(compute_block(replace(block, cells=cells), prepared))
    rows = pd.concat(found, ignore_index=True)
    return rows[rows["metric"] == problem.metric], data


def _prepared(problem: Problem, folder: Path, small: bool) -> tuple[Any, str]:
    dataset = get_dataset(problem.source)
    raw = fetch_or_stand_in(dataset, home=folder, mirror=mirror_from_environment(), offline=True)
    table = to_parquet(dataset, raw, home=folder, stand_in_rows=200 if small else None)
    return prepared_data(problem, table, folder), f"{table.name} ({table.data_source})"


def _goal(what: str, errors: pd.DataFrame, wanted: float) -> Goal:
    values = errors["value"].to_numpy()
    return Goal(
        what=f"{what}, mean of {len(values)} ± {values.std(ddof=1) / np.sqrt(len(values)):.2g}",
        values=[values.mean()],
        wanted=wanted,
        at_least=False,
        unit="",
    )


def _measurement(goals: list[Goal], data: str, *further: str) -> Measurement:
    measured = [f"{goal.what}: {goal.median:.3g}" for goal in goals]
    return Measurement(figure="; ".join([*measured, *further]), goals=goals, data=data)
