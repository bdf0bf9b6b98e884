"""What orchestration adds to a block, by blocks that compute nothing: no block's own time blurs it.

One block of the study of housing every .55 s, as two workers finish blocks of 1.1 s; a standing server;
processor time of the flow's process, of its workers and of the server, from the first to the last.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed
from prefect.task_runners import ThreadPoolTaskRunner

from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
from tasks.study.expand import Block
from tasks.workers import compute, local_workers
from tests.bench.goals import Goal, Measurement
from tests.flows.small_project import Standing

# Prefect reads its settings when it is imported, hence from the environment of a process of its own.
_QUIET = {"PREFECT_LOGGING_LEVEL": "INFO", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
PACE, BLOCK_SECONDS = 0.55, 1.1
WORKERS = 2


def bench_orchestration_cost(small: bool = False) -> Measurement:
    goals = []
    n_blocks = 2 if small else 60
    for engine in ("local",) if small else ("local", "dask"):
        milliseconds = 1000 * _seconds_per_block(engine, n_blocks)
        print(f"{engine}: {milliseconds:.0f} ms per block", flush=True)
        what = f"orchestration of a block of {BLOCK_SECONDS} s: {engine}, SQLite"
        share = milliseconds / BLOCK_SECONDS / 10
        goals.append(Goal(what=what, values=[share], wanted=5, at_least=False, unit="% of block time"))
    figure = "; ".join(f"{goal.what.partition(': ')[2]} {goal.median:.1f} %" for goal in goals)
    return Measurement(figure=figure, goals=goals, data="none")


def _seconds_per_block(engine: str, n_blocks: int) -> float:
    with (
        tempfile.TemporaryDirectory() as name,
        Standing(PROJECT_ROOT, os.environ | {"DPCOST_HOME": f"{name}/standing"}) as server,
    ):
        environment = server.wait_until_up().client | _QUIET | {"DPCOST_HOME": str(Path(name) / "home")}
        code = "import sys; from tests.bench.orchestration import main; main(*sys.argv[1:])"
        command = [sys.executable, "-c", code, engine, str(os.getpid()), str(n_blocks)]
        ran = subprocess.run(
            command, cwd=PROJECT_ROOT, env=environment, check=True, capture_output=True, text=True
        )
    return float(ran.stdout.splitlines()[-1])


def main(engine: str, top: str, n_blocks: str) -> None:
    Path(os.environ["DPCOST_HOME"]).mkdir()
    run = empty_blocks.with_options(task_runner=ThreadPoolTaskRunner(max_workers=WORKERS))
    with contextlib.ExitStack() as stack:
        if engine == "dask":
            from tasks.dask_cluster import own_cluster

            stack.enter_context(own_cluster(WORKERS))
        else:
            stack.enter_context(local_workers(WORKERS))
        print(run(int(top), int(n_blocks)))


@task(task_run_name="{block.title}", cache_policy=NO_CACHE)
def empty_block(block: Block) -> int:
    """Compute nothing in a worker, and wait for it as the task of a block does."""
    return compute(os.getpid)


@flow(name="empty_blocks")
def empty_blocks(top: int, n_blocks: int) -> float:
    blocks, n_first = find_study("housing").blocks("standard", replicates=1, seed=1), n_blocks // 3
    for number in range(n_first + n_blocks):
        if number == n_first:
            time.sleep(3)  # what the first have left to do
            began = _seconds(top)
        for future in as_completed([empty_block.submit(blocks[number % len(blocks)])]):
            future.result()
        time.sleep(PACE if number >= n_first else 0)
    time.sleep(2)
    return (_seconds(top) - began) / n_blocks


def _seconds(top: int) -> float:
    total = 0.0
    for each in psutil.Process(top).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it just ended
            total += sum(each.cpu_times()[:4])  # its own, and its children's that ended
    return total
