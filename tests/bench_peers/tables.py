"""The tables that ours and the peers are compared on, in public units, with public bounds."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dpalgos
from data.datasets import get_dataset
from flows.studies.find_study import find_study
from tasks.bring import fetch, parquet
from tests.tasks.blocks import prepared_data


@dataclass(frozen=True, kw_only=True)
class BenchTable:
    """A table and its tasks; the panel *public* of its study declares the columns and their bounds."""

    title: str
    study: str
    row_bound: float
    response_bound: float = 1.0
    tasks: tuple[str, ...]  # of "mean", "linear", "logistic"
    boundary: float = 0.0  # where the response, in public units, splits the rows into two classes
    stand_in_rows: int | None = None  # how many rows are simulated where the data cannot be had

    def load(self) -> dict[str, np.ndarray]:
        """Return rows, responses and labels, bounds, and the answers without privacy, by name."""
        problem = next(p.problem for p in find_study(self.study).panels if p.name == "public")
        ingested = parquet(fetch(problem.dataset), stand_in_rows=self.stand_in_rows)
        with tempfile.TemporaryDirectory() as folder:
            table = prepared_data(problem, ingested, Path(folder))
        X, y = np.asarray(table.X, dtype=float), np.asarray(table.y, dtype=float)
        data = {"row_bound": np.float64(self.row_bound), "X": X, "y": y}
        data["test_X"] = X
        data["labels"] = data["test_labels"] = (y > self.boundary).astype(float)
        if self.stand_in_rows:  # wide: predicts rows that it has not seen
            chosen = np.random.default_rng(0).permutation(len(X)) < len(X) // 2
            data.update(X=X[chosen], test_X=X[~chosen])
            data.update(labels=data["labels"][chosen], test_labels=data["labels"][~chosen])
            return data
        about = get_dataset(problem.dataset)
        columns = [about.column(name) for name in (*problem.covariates, problem.response)]
        ends = np.array([[(end - c.center) / c.scale for end in (c.lower, c.upper)] for c in columns])
        data.update(lower=ends[:-1, 0], upper=ends[:-1, 1], y_lower=ends[-1, 0], y_upper=ends[-1, 1])
        data["mean_truth"] = X[:, :-1].mean(axis=0)
        data["linear_truth"] = dpalgos.estimate("ols", X, y, rng=np.random.default_rng(0)).estimate
        return data


TABLES = {
    "housing": BenchTable(
        title="California housing", study="housing", row_bound=3.0, response_bound=2.0,
        tasks=("mean", "linear", "logistic"),
    ),
    "rand": BenchTable(
        title="RAND health insurance experiment", study="rand_conditions", row_bound=4.0, response_bound=3.0,
        tasks=("mean", "linear"),
    ),
    "fair": BenchTable(
        title="Survey on affairs", study="fair", row_bound=4.0, tasks=("mean", "logistic"), boundary=0.5,
    ),
    "swarm": BenchTable(
        title="Swarm, simulated where the file cannot be had", study="swarm", row_bound=60.0,
        tasks=("logistic",), boundary=0.5, stand_in_rows=8000,
    ),
}  # fmt: skip


def ours(table: BenchTable, data: dict[str, np.ndarray], task: str) -> Iterator[tuple[str, dict]]:
    """Yield our estimators of a task with their public settings: defaults, or those of the table's study."""
    n_columns, row = data["X"].shape[1], table.row_bound
    if task == "mean":
        yield "box_mean", {"lower": data["lower"], "upper": data["upper"]}
        yield "clipped_mean", {"mean_bound": 2.0, "std_bounds": (0.2, 2.0)}
        yield "coinpress_mean", {"mean_bound": 2.0, "std_bound": 2.0}
        yield "dp_mean", {"value_bound": 3.0}
    elif task == "linear":
        bounds = {"covariate_bound": row, "response_bound": table.response_bound}
        yield "preconditioned_regression", {}
        yield "adassp", bounds
        yield "boosted_adassp", bounds
        yield "hessian_mixing", bounds
        yield "clipped_gradient_descent", {"clip_norm": 5 * n_columns**0.5}
        yield "tukey_em", {}
    elif table.stand_in_rows:
        yield (
            "screened_sparse_glm",
            {
                "family": "logistic", "covariate_bound": 3.0, "covariate_second_moment": 1.0, "sparsity": 50,
                "screening_bound": 0.5, "clip_norm": 0.8 * 50**0.5, "n_iterations": 4, "n_averaged": 2,
                "step_size": 1.75,
            },
        )  # fmt: skip
        yield "dp_sgd_glm", {"family": "logistic", "covariate_bound": row}
    else:
        bounds = {"family": "logistic", "covariate_bound": row}
        yield "objective_perturbation_glm", bounds
        yield "preconditioned_glm", {"family": "logistic"}
        yield "output_perturbation_glm", {**bounds, "ridge": 0.01}
        yield "double_noise_newton_glm", bounds
        yield "dp_glm", bounds
        yield "dp_sgd_glm", bounds
