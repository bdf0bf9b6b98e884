"""Run ours and the peers on the same rows, one after the other; write ``build/bench-peers``."""

import base64
import io
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

import dpalgos
from data.registry import get_dataset
from data.store import PROJECT_ROOT, atomic_write
from dpalgos.accounting.budget import concentrated_rho
from dpalgos.audit.confidence import CONFIDENCE, epsilon_lower_bound
from flows.find_study import find_study
from tasks.fetch import fetch
from tasks.parquet import parquet
from tests.bench_peers.measure import REPETITIONS, judged, measure

OUT = PROJECT_ROOT / "build" / "bench-peers"
EPSILONS = (0.5, 2.0, 10.0)
ROW_BOUND, RESPONSE_BOUND = 3.0, 2.0  # those of the housing study
OURS = {
    "mean": {
        "clipped_mean": {"mean_bound": 2.0, "std_bounds": (0.2, 2.0)},
        "coinpress_mean": {"mean_bound": 2.0, "std_bound": 2.0},
        "dp_mean": {"value_bound": 3.0},
    },
    "linear": {
        "preconditioned_regression": {},
        "adassp": {"covariate_bound": ROW_BOUND, "response_bound": RESPONSE_BOUND},
        "boosted_adassp": {"covariate_bound": ROW_BOUND, "response_bound": RESPONSE_BOUND},
        "clipped_gradient_descent": {"clip_norm": 5 * 6**0.5},
    },
    "logistic": {
        "objective_perturbation_glm": {"family": "logistic", "covariate_bound": ROW_BOUND},
        "output_perturbation_glm": {"family": "logistic", "covariate_bound": ROW_BOUND, "ridge": 0.01},
        "dp_glm": {"family": "logistic", "covariate_bound": ROW_BOUND},
        "dp_sgd_glm": {"family": "logistic", "covariate_bound": ROW_BOUND},
    },
}
WHAT = {
    "mean": "Means of five columns: ℓ2 distance to the means",
    "linear": "Linear regression: ℓ2 distance to least squares",
    "logistic": "Value above 200,000 dollars: share misclassified",
}


def main(python: str) -> None:
    """Measure and write the page; ``python`` is the interpreter of the peers' environment."""
    data = housing()
    with threadpool_limits(1):
        rows = ours(data)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "data.npz", Path(folder) / "answers.json"
        np.savez(source, **data)
        subprocess.run(
            [python, str(Path(__file__).with_name("shipped.py")), str(source), str(target)],
            check=True,
        )
        theirs = json.loads(target.read_text())
    rows += theirs["rows"]
    leak = leaked(*theirs["hits"], theirs["n_trials"])
    atomic_write(OUT / "bench-peers.json", json.dumps(rows, indent=1).encode())
    atomic_write(OUT / "bench-peers.md", page(rows, leak).encode())
    atomic_write(OUT / "bench-peers.html", html(rows, leak).encode())
    print(OUT / "bench-peers.html")


def housing() -> dict:
    """Return the rows in public units, public bounds of the columns, and the answers without privacy."""
    problem = next(p.problem for p in find_study("housing").panels if p.name == "public")
    suffix, content = problem.prepare(parquet.fn(fetch.fn("housing")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table{suffix}"
        path.write_bytes(content)
        table = problem.load(path)

    def bounds(name: str) -> tuple[float, float]:
        column = get_dataset("housing").column(name)
        return tuple((end - column.center) / column.scale for end in (column.lower, column.upper))

    lower, upper = np.array([bounds(name) for name in problem.covariates]).T
    y_lower, y_upper = bounds(problem.response)
    X, y, rng = table.X, table.y, np.random.default_rng(0)
    return {
        "X": X, "y": y, "labels": (y > 0).astype(float),
        "lower": lower, "upper": upper, "y_lower": y_lower, "y_upper": y_upper, "row_bound": ROW_BOUND,
        "mean_truth": X[:, :-1].mean(axis=0),
        "linear_truth": dpalgos.estimate("ols", X, y, rng=rng).estimate,
        "epsilons": np.array(EPSILONS),
        "rhos": np.array([concentrated_rho(epsilon, len(X) ** -2.0) for epsilon in EPSILONS]),
    }  # fmt: skip


def ours(data: dict) -> list[dict]:
    """Measure our estimators, and the answer without privacy where it is not the truth itself."""
    X, y, rows = data["X"], data["y"], []
    given = {"mean": (X[:, :-1], None), "linear": (X, y), "logistic": (X, data["labels"])}
    for task, estimators in OURS.items():
        asked = [(name, epsilon, keywords) for epsilon in EPSILONS for name, keywords in estimators.items()]
        if task == "logistic":
            asked.append(("glm", np.inf, {"family": "logistic"}))
        for name, epsilon, keywords in asked:
            budget = {"epsilon": epsilon, "delta": len(X) ** -2.0} if np.isfinite(epsilon) else {}

            fit = partial(estimated, name, given[task], {**budget, **keywords})
            found = measure(fit, judged(data, task))
            rows.append({"task": task, "who": name, "epsilon": epsilon, "ours": True, **found})
    return rows


def estimated(name: str, given: tuple, settings: dict, seed: int) -> np.ndarray:
    """Return one estimate."""
    return dpalgos.estimate(name, *given, rng=np.random.default_rng(seed), **settings).estimate


def leaked(empty: int, full: int, n_trials: int) -> str:
    """Say what the trials prove of diffprivlib's LinearRegression, asked for ε = 1."""
    proved = float(epsilon_lower_bound(empty, full, n_trials, 0.0))
    return (
        f"diffprivlib's LinearRegression does not keep the ε = 1 (δ = 0) asked of it: {n_trials:,} fits "
        "on each of two "
        f"neighbours prove ε ≥ {proved:.2f} with confidence {CONFIDENCE:g}. The noise on a column's sum of "
        "squares is scaled by the square of its lower bound alone, so that with bounds (0, 1) that sum is "
        f"released as it is: the slope was beyond 10⁵⁰ in {empty:,} fits where the column is zero, in "
        f"{full:,} where one row of it is one. Its errors below are not those of a private method."
    )


def table(rows: list[dict], task: str) -> list[list[str]]:
    """Return the lines of a task's table, the smallest error first at each ε."""
    chosen = sorted((r for r in rows if r["task"] == task), key=lambda r: (r["epsilon"], r["error"]))
    return [
        [
            f"{r['epsilon']:g}",
            r["who"] if r["ours"] else f"{r['who']} (peer)",
            f"{r['error']:.4g} ± {r['standard_error']:.2g}",
            f"{1000 * r['seconds']:.3g}",
            f"{r['megabytes']:.3g}",
        ]
        for r in chosen
    ]


HEAD = ["ε", "who", "error", "ms", "MB"]
INTRODUCTION = (
    f"California housing, all rows, δ = 1/n² where a method has one; mean ± standard error of {REPETITIONS} "
    "runs, median time and peak allocation of a run, one thread. Bounds are public; settings are defaults or "
    "those of the housing study, not tuned for this page."
)


def page(rows: list[dict], leak: str) -> str:
    """Return the page as Markdown."""
    parts = ["# Ours beside the libraries a user would pick instead", INTRODUCTION, leak]
    for task, what in WHAT.items():
        lines = [HEAD, ["---"] * len(HEAD), *table(rows, task)]
        parts += [f"## {what}", "\n".join("| " + " | ".join(line) + " |" for line in lines)]
    return "\n\n".join(parts) + "\n"


def html(rows: list[dict], leak: str) -> str:
    """Return the page as HTML, with error against time."""
    parts = ["<h1>Ours beside the libraries a user would pick instead</h1>", f"<p>{INTRODUCTION}</p>"]
    parts += [f"<p>{leak}</p>"]
    for task, what in WHAT.items():
        head = "".join(f"<th>{cell}</th>" for cell in HEAD)
        lines = ["".join(f"<td>{cell}</td>" for cell in line) for line in table(rows, task)]
        body = "".join(f"<tr>{line}</tr>" for line in (head, *lines))
        parts += [f"<h2>{what}</h2>", picture(rows, task), f"<table>{body}</table>"]
    return '<!doctype html><meta charset="utf-8"><title>Peers</title>\n' + "\n".join(parts) + "\n"


def picture(rows: list[dict], task: str) -> str:
    """Return error against time, a marker for each ε, as an image element."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for who in dict.fromkeys(r["who"] for r in rows if r["task"] == task):
        found = [r for r in rows if r["task"] == task and r["who"] == who]
        seconds, errors = ([r[key] for r in found] for key in ("seconds", "error"))
        axes.loglog(seconds, errors, "o-" if found[0]["ours"] else "s--", label=who)
        for r in found:
            axes.annotate(f"{r['epsilon']:g}", (r["seconds"], r["error"]), fontsize=7)
    axes.set(xlabel="seconds per run", ylabel="error")
    axes.legend(fontsize=7)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(figure)
    source = base64.b64encode(drawn.getvalue()).decode()
    return f'<img alt="Error against seconds, numbers are ε" src="data:image/svg+xml;base64,{source}">'


if __name__ == "__main__":
    main(*sys.argv[1:])
