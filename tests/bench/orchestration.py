"""The cost of orchestration on top of the blocks: 2,000 cells, two workers, threads and Dask, two databases.

Processor time is compared, not the clock: of runs with all that they started and their server's, and of the
same tasks called as plain functions, in as many processes at once as there are workers. What a study of few
blocks takes is taken off both, so that what is left is the cost of further blocks; starting the program and
its workers is stated beside it.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from data.store.folders import PROJECT_ROOT
from flows.server.postgres import DATABASE_URL, start_postgres
from flows.server.prefect_server import answers, free_port, own_authentication, server_process
from tests.bench.goals import Measurement, at_most
from tests.bench.processes import run_dpcost

WORKERS, SEED, REPS = 2, 1, 50
MANY = [*range(1600, 20_000, 767), 20_000]
FEW = MANY[-3:]
STUDY = """
title = "Two thousand cells"
question = "What does orchestration cost?"
task = "linear_regression"
size_label = "subsample size m"
metric_label = "error"
grid = { n = %s, epsilon = [0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0], delta = ["1/n^2", "10/n^1.1"] }
replicates = { smoke = 2, standard = 50, paper = 50 }
headline = { n = 20000, epsilon = 0.5, delta = "1/n^2", panel = "public" }

[[panels]]
name = "public"
[panels.problem]
kind = "subsamples"
dataset = "housing"
response = "median_house_value"
covariates = ["median_income", "housing_median_age", "population", "households", "total_rooms"]
units = "public"

[[estimators]]
name = "zero"

[[estimators]]
name = "ols"

[[estimators]]
name = "adassp"
calibrations = ["tight", "paper"]
params = { covariate_bound = 3.0, response_bound = 2.0 }

[[estimators]]
name = "dp_linear_regression"
calibrations = ["tight", "paper"]
params = { covariate_bound = 3.0, response_bound = 2.0, coef_bound = 2.0, n_iterations = 100, step_size = 0.5}

[[estimators]]
name = "sheffet_ols"
calibrations = ["tight"]
params = { covariate_bound = 3.0, response_bound = 2.0 }
"""


def bench_orchestration_cost(small: bool = False) -> Measurement:
    """Compare what further blocks add to a run with what they and their page take by themselves."""
    databases, engines = (("SQLite",), ("local",)) if small else (("SQLite", "PostgreSQL"), ("local", "dask"))
    sizes_of = (FEW[-1:], FEW) if small else (FEW, MANY)
    settings_of = {
        f"{engine}, {database}": (engine, database) for database in databases for engine in engines
    }
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL refuses to run as root, so its user has to get in
        studies = {"few": folder / "few_cells.toml", "all": folder / "two_thousand_cells.toml"}
        for sizes, study in zip(sizes_of, studies.values(), strict=True):
            study.write_text(STUDY % sizes)
        plain = {size: _plainly(folder / "plain" / size, study) for size, study in studies.items()}
        n_blocks = plain["all"].n_blocks - plain["few"].n_blocks
        work = plain["all"].seconds - plain["few"].seconds
        for label, (engine, database) in settings_of.items():
            home = folder / f"{engine}-{database}"
            with running_server(home / "standing", database) as settings:
                runs = {size: _run(home / size, study, engine, settings) for size, study in studies.items()}
            added = runs["all"][0] - runs["few"][0] - work
            rows[label] = {
                "run": runs["all"][0],
                "wall": runs["all"][1],
                "start": runs["few"][0] - plain["few"].seconds,
                "per_block": added / n_blocks,
                "share": added / work,
            }
            print(f"{label}: {_in_words(rows[label])}", flush=True)
    figure = "; ".join(f"{label}: {_in_words(row)}" for label, row in rows.items())
    return Measurement(
        figure=f"{plain['all'].n_cells:,} cells in {plain['all'].n_blocks} blocks; {n_blocks} of them "
        f"take {work:.0f} s; {figure}",
        goals=[
            at_most(
                5,
                "% of block time",
                f"orchestration of {plain['all'].n_cells:,} cells: {label}",
                100 * row["share"],
            )
            for label, row in rows.items()
        ],
        data="housing (real)",
        details={"blocks": work, **rows},
    )


def _in_words(row: dict[str, float]) -> str:
    return (
        f"{1000 * row['per_block']:.0f} ms per block ({row['share']:.1%}), {row['start']:.0f} s to start; "
        f"{row['wall']:.0f} s by the clock"
    )


@dataclass(frozen=True)
class _Plain:
    """What a study takes without Prefect: cells, blocks, and the processor time of all its tasks."""

    n_cells: int
    n_blocks: int
    seconds: float


def _plainly(home: Path, study: Path) -> _Plain:
    """Compute a study and its page as plain functions, in a process of its own.

    As many such processes run at once as there are workers, which share the machine's caches as well.
    """
    command = [sys.executable, "-m", "tests.bench.plain_study", str(study), str(REPS), str(SEED)]
    environments = (
        os.environ | {"DPCOST_HOME": str(home / str(each)), "OMP_NUM_THREADS": "1"} for each in range(WORKERS)
    )
    running = [
        subprocess.Popen(command, cwd=PROJECT_ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for environment in environments
    ]
    found = [json.loads(each.communicate()[0].splitlines()[-1]) for each in running]
    assert not any(each.returncode for each in running)
    return _Plain(**found[0] | {"seconds": statistics.mean(each["seconds"] for each in found)})


def _run(home: Path, study: Path, engine: str, settings: dict[str, str]) -> tuple[float, float]:
    """Return the processor time of a run, with all that it started and its server's, and its seconds."""
    options = ["--engine", engine, "--workers", str(WORKERS), "--seed", str(SEED), "--offline"]
    with _tree_time() as used:
        wall = run_dpcost(home, "run", str(study), *options, "--out", str(home / "out"), **settings)
    return used[0], wall


@contextlib.contextmanager
def _tree_time() -> Iterator[list[float]]:
    """Add up the processor time of everything below this process while the body runs."""
    over, used, total = threading.Event(), {}, [0.0]
    me = psutil.Process()

    def look(into: dict[tuple[int, float], float]) -> None:
        for each in me.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = each.cpu_times()
                into[each.pid, each.create_time()] = times.user + times.system

    def watch() -> None:
        while not over.wait(0.25):
            look(used)

    before: dict[tuple[int, float], float] = {}
    look(before)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield total
    finally:
        over.set()
        watcher.join()
        look(used)
        total[0] = sum(seconds - before.get(each, 0.0) for each, seconds in used.items())


@contextlib.contextmanager
def running_server(home: Path, database: str) -> Iterator[dict[str, str]]:
    """Run a standing server on a database, as ``make serve`` does, and return how runs reach it."""
    with contextlib.ExitStack() as stack:
        environment = dict(os.environ)
        if database == "PostgreSQL":
            database, environment[DATABASE_URL] = start_postgres(home)
            stack.callback(database.stop)
        port = free_port()
        server, api_url = server_process(home, port, environment), f"http://127.0.0.1:{port}/api"
        server.start(ready=lambda: answers(api_url))
        stack.callback(server.stop)
        yield {"PREFECT_API_URL": api_url, "PREFECT_API_AUTH_STRING": own_authentication(home)}
