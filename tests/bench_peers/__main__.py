"""Run ours and the peers on the same rows, one after the other; write ``build/bench-peers``.

``python -m tests.bench_peers PYTHON [TABLE …]``: the interpreter of the peers' environment, and which tables.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import dpalgos
from data.store.folders import PROJECT_ROOT, atomic_write
from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import sampled_noise_multiplier
from tests.bench_peers import audits, page
from tests.bench_peers.measure import judged, measure
from tests.bench_peers.tables import TABLES, BenchTable, ours

OUT = PROJECT_ROOT / "build" / "bench-peers"
EPSILONS = (0.5, 2.0, 10.0)
BATCHES, STEPS = 10, 50  # of DP-SGD, ours by default and theirs


def main(python: str, *names: str) -> None:
    """Measure and write the page."""
    rows = []
    for name in names or TABLES:
        table = TABLES[name]
        data = table.load()
        with threadpool_limits(1):
            found = of_ours(table, data)
        found += in_their_environment(python, budgets(data) | data | {"tasks": np.array(table.tasks)})
        rows += [{"table": name, **row} for row in found]
        print(name, flush=True)
    asked = {
        "audited": np.array(True),
        "rho": np.float64(concentrated_rho(audits.EPSILON, audits.DELTA)),
        "multiplier": np.float64(sgd_multiplier(audits.EPSILON, audits.DELTA)),
    }
    told = audits.of_ours() + audits.of_peers(in_their_environment(python, asked))
    atomic_write(OUT / "bench-peers.json", json.dumps({"rows": rows, "audits": told}, indent=1).encode())
    atomic_write(OUT / "bench-peers.md", page.markdown(rows, told).encode())
    atomic_write(OUT / "bench-peers.html", page.html(rows, told).encode())
    print(OUT / "bench-peers.html")


def of_ours(table: BenchTable, data: dict) -> list[dict]:
    """Measure our estimators, and the answer without privacy where it is not the truth itself."""
    rows = []
    given = {"mean": (data["X"][:, :-1], None), "linear": (data["X"], data["y"])}
    given["logistic"] = (data["X"], data["labels"])
    for task in table.tasks:
        chosen = list(ours(table, data, task))
        asked = [(name, epsilon, keywords) for epsilon in EPSILONS for name, keywords in chosen]
        if task == "logistic" and not table.stand_in_rows:
            asked.append(("glm", np.inf, {"family": "logistic"}))
        for name, epsilon, keywords in asked:
            budget = {"epsilon": epsilon, "delta": delta_of(data)} if np.isfinite(epsilon) else {}
            found = measure(partial(estimated, name, given[task], {**budget, **keywords}), judged(data, task))
            rows.append({"task": task, "who": name, "epsilon": epsilon, "ours": True, **found})
    return rows


def estimated(name: str, given: tuple, settings: dict, seed: int) -> np.ndarray:
    return dpalgos.estimate(name, *given, rng=np.random.default_rng(seed), **settings).estimate


def budgets(data: dict) -> dict:
    """Return what the peers need to know for the same ε and δ."""
    delta = delta_of(data)
    return {
        "epsilons": np.array(EPSILONS),
        "rhos": np.array([concentrated_rho(epsilon, delta) for epsilon in EPSILONS]),
        "sgd_multipliers": np.array([sgd_multiplier(epsilon, delta) for epsilon in EPSILONS]),
    }


def sgd_multiplier(epsilon: float, delta: float) -> float:
    return 2 * sampled_noise_multiplier(epsilon, delta, 1 / BATCHES, STEPS)


def delta_of(data: dict) -> float:
    """Return 1/n²."""
    return len(data["X"]) ** -2.0


def in_their_environment(python: str, data: dict) -> list | dict:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "data.npz", Path(folder) / "answers.json"
        np.savez(source, **data)
        script = Path(__file__).with_name("shipped.py")
        one_thread = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        subprocess.run(
            [python, str(script), str(source), str(target)], check=True, env={**os.environ, **one_thread}
        )
        return json.loads(target.read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
