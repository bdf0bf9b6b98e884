"""Speeds as ratios to a reference kernel of the same run: matrix products, sorts or copies per call.

Seconds are of the processor, the least of some rounds for a call and for its kernel, which take turns. The
ratios of the last release are in ``ratios.json``; ``python -m tests.bench speed --keep`` writes today's.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpalgos
from data.formats.row_groups import RowBlocks
from data.store.folders import PROJECT_ROOT
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.mechanisms.top_k import gumbel_top_k
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows
from dpalgos.rows.wide import Design
from tests.bench.commands import seconds_of_children
from tests.bench.goals import Goal, Measurement
from tests.builders import DPCOST

KEPT = Path(__file__).with_name("ratios.json")
_WORSE = 4 / 3  # times the last release's ratio: a quarter of the speed is lost
_ROUNDS, _SECONDS = 3, 1.0  # at least so many and so long: short calls are disturbed more easily
_OF_GEMM = 0.7  # share of the speed of one product as wide, which sums over wide rows reach at least
BUDGET: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}


@dataclass(frozen=True)
class Speed:
    what: str
    kernel: str
    call: Callable[[], object]
    own_kernel: Callable[[], object] | None = None
    limit: float | None = None


def bench_speeds(small: bool = False) -> Measurement:
    """Measure every call against its kernel, and the ratio against that of the last release."""
    kept = json.loads(KEPT.read_text())["ratios"] if KEPT.exists() else {}
    kernels, goals = reference_kernels(small), []
    with TemporaryDirectory() as folder:
        for speed in speeds(Path(folder), small):
            kernel = speed.own_kernel or kernels[speed.kernel]
            ratio = once(speed.call, kernel) if small else measured_ratio(speed.call, kernel)
            goals.append(judged(speed, ratio, kept))
            print(f"  {speed.what}: {ratio:.3g} {speed.kernel}", flush=True)
    return Measurement(figure=f"{len(goals)} ratios", goals=goals)


def judged(speed: Speed, ratio: float, kept: dict[str, float]) -> Goal:
    """Return a ratio with the most that it may be: its own limit, or a third more than the last release's."""
    most = speed.limit or _WORSE * kept.get(speed.what, np.inf)
    return Goal(what=speed.what, values=[ratio], wanted=most, at_least=False, unit=f"× {speed.kernel}")


def keep(goals: list[dict[str, Any]], commit: str) -> None:
    ratios = {goal["what"]: float(f"{goal['values'][0]:.3g}") for goal in goals}
    KEPT.write_text(json.dumps({"commit": commit, "ratios": ratios}, indent=1, ensure_ascii=False) + "\n")


def measured_ratio(call: Callable[[], object], kernel: Callable[[], object]) -> float:
    call()  # what it imports and calibrates is not timed
    pairs: list[tuple[float, float]] = []
    while len(pairs) < _ROUNDS or np.sum(pairs) < _SECONDS:
        pairs.append((seconds(call), seconds(kernel)))
    return float(np.divide(*np.min(pairs, axis=0)))


def once(call: Callable[[], object], kernel: Callable[[], object]) -> float:
    return seconds(call) / seconds(kernel)


def seconds(call: Callable[[], object]) -> float:
    """Return the processor's seconds of this process; a call that measures itself returns them."""
    start = time.process_time()
    found = call()
    return found if isinstance(found, float) else time.process_time() - start


def reference_kernels(small: bool) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(0)
    side, length = (50, 1000) if small else (1200, 2_000_000)
    square, numbers = rng.standard_normal((side, side)), rng.standard_normal(length)
    block = rng.standard_normal(10 * length)
    return {
        "matrix product": lambda: square @ square,
        "sort": lambda: np.sort(numbers),
        "copy": block.copy,
        "import of numpy": lambda: _child("-c", "import numpy"),
    }


def speeds(folder: Path, small: bool) -> Iterator[Speed]:
    yield from _estimators(small)
    yield _wide_products(small)
    for d, k in ((2_400, 50), (4_000, 40)):
        call, draw = _top_k(d // 20 if small else d, k // 10 if small else k, 2 if small else 100)
        yield Speed(f"top {k} of {d:,} numbers", "drawing of its noise", call, own_kernel=draw)
    yield Speed("calibration of Gaussian noise, 100 times", "sort", _calibrated)
    path = folder / "rows.parquet"
    rng, n = np.random.default_rng(0), 2_000 if small else 1_000_000
    pq.write_table(pa.table({f"x{j}": rng.standard_normal(n) for j in range(6)}), path)
    yield Speed("regression on 10⁶ streamed rows", "copy", partial(_streamed, path))
    for words in (("--version",), ("estimators",), ("status",)):
        call = partial(_child, "-c", DPCOST, *words, home=str(folder))
        yield Speed(f"dpcost {words[0]}", "import of numpy", call)


def _estimators(small: bool) -> Iterator[Speed]:
    rng = np.random.default_rng(0)
    n, d = (400, 16) if small else (10_000, 1_024)
    replicates = 2 if small else 20
    users = Sample(rng.standard_normal((n, d)), user_ids=np.arange(n), n_replicates=replicates)
    loose = {"epsilon": 5.0, "delta": 1e-6, "range_failure": 1.0}
    public = {"value_bound": 5.0, "concentration_radius": 40.0, **loose}
    yield Speed(
        "user mean by Hadamard, 20 replicates", "matrix product", _fit("user_level_mean", users, **public)
    )
    X = np.column_stack([rng.standard_normal((2 * n, 5)), np.ones(2 * n)])
    y = X @ rng.standard_normal(6) + rng.standard_normal(2 * n)
    mask = rng.random((2 * n, 2 * replicates)) < 0.9
    rows = Sample(X, y, row_mask=mask, n_replicates=2 * replicates)
    bounds = {"covariate_bound": 3.0, "response_bound": 2.0}
    descent = {"n_iterations": 50, "step_size": 0.5, "coef_bound": 1.5}
    for name, keywords in (
        ("dp_linear_regression", bounds | descent),
        ("preconditioned_regression", {}),
        ("adassp", bounds),
        ("tukey_em", {}),
    ):
        yield Speed(f"{name}, 40 replicates", "matrix product", _fit(name, rows, **keywords, **BUDGET))
    labels = Sample(X, (y > 0).astype(float), n_replicates=replicates)
    logistic = {"family": "logistic", "covariate_bound": 3.0, **BUDGET}
    yield Speed(
        "objective_perturbation_glm, 20 replicates",
        "matrix product",
        _fit("objective_perturbation_glm", labels, **logistic),
    )
    wide = Sample(rng.random((n, d), dtype=np.float32), labels.response()[:n], n_replicates=replicates)
    sparse = {"n_iterations": 10, "step_size": 0.5, "sparsity": 5, **logistic}
    yield Speed("dp_sparse_glm, wide, 20 replicates", "matrix product", _fit("dp_sparse_glm", wide, **sparse))


def _wide_products(small: bool) -> Speed:
    """A gradient of 6 replicates in one pass over rows in single precision, as the steps of swarm make it."""
    n, d, replicates = (400, 50, 6) if small else (12_000, 2_400, 6)
    rng = np.random.default_rng(0)
    X, Y = rng.random((n, d), dtype=np.float32), rng.random((n, replicates), dtype=np.float32)
    coef = rng.random((d, replicates), dtype=np.float32)
    design = Design(Sample(X, n_replicates=replicates), single=True)
    return Speed(
        f"gradient of {replicates} replicates over {n:,} wide rows",
        "products of that width",
        lambda: design.mean_score(coef, lambda predictor, rows: predictor - Y[rows]),
        lambda: (X @ coef).T @ X,
        limit=1 / _OF_GEMM,
    )


def _fit(name: str, sample: Sample, **keywords: Any) -> Callable[[], object]:
    rng = np.random.default_rng
    return lambda: (
        dpalgos.estimate(name, sample, rng=rng(1), replicates=sample.n_replicates, **keywords).estimate
    )


def _top_k(d: int, k: int, n_replicates: int) -> tuple[Callable[[], object], Callable[[], object]]:
    values = np.random.default_rng(0).standard_normal((d, n_replicates))
    rngs = np.random.default_rng(1).spawn(n_replicates)
    scale = np.asarray(0.04)

    def call() -> object:
        return gumbel_top_k(Noise(rngs), values, scale=scale, k=k, by_magnitude=True)

    def draw() -> None:
        for _ in Noise(rngs).gumbel_rows(d, max(1, 40_000 // d)):
            pass

    return call, draw


def _calibrated() -> None:
    for epsilon in 0.1 + np.random.default_rng().random(100):  # none of them known
        noise_multiplier(float(epsilon), 1e-6)


def _streamed(path: Path) -> object:
    rows = RowBlocks(path, [f"x{j}" for j in range(5)], "x5")
    keywords = {"covariate_bound": 3.0, "response_bound": 4.0, "coef_bound": 2.0}
    sample = StreamedRows(rows, rows.n_rows)
    return dpalgos.estimate(
        "dp_linear_regression", sample, rng=np.random.default_rng(0), epsilon=0.5, delta=1e-9, **keywords
    ).estimate


def _child(*words: str, home: str = "") -> float:
    environment = {**os.environ, "DPCOST_HOME": home, "OMP_NUM_THREADS": "1"}
    asked = {"cwd": PROJECT_ROOT, "env": environment, "check": True, "capture_output": True}
    return seconds_of_children(lambda: subprocess.run([sys.executable, *words], **asked))
