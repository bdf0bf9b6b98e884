"""Ends a random process of a run at a random moment, runs the command again, and looks at what came of it.

Each kill starts without a cache: what is stored is what the killed run stored.
"""

import contextlib
import os
import random
import shutil
import signal
import time

import psutil
from small_project import processes_of, until

INTERRUPTED = {"ctrl-c": signal.SIGINT, "sigterm": signal.SIGTERM, "ctrl-c twice": signal.SIGINT}
TARGETS = ("flow", "task process", *INTERRUPTED)
WORKERS = 2
PATIENCE = 600.0


def spawned(pid):
    found = []
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process(pid).children(recursive=True):
            if any("spawn_main" in word for word in each.cmdline()):
                found.append(each)
    return found


def kill(project, target, chance, n_results):
    """Kill one process of a run of a small study, and run again.

    Return how many results were computed again and how many processes were left; None where it came too late.
    """
    shutil.rmtree(project.home / "cache", ignore_errors=True)
    run = ["run", project.study, "--profile", "smoke", "--out", project.out, "--workers", WORKERS]
    process = project.start(*run, "--engine", "dask" if target == "task process" else "local")
    wanted = chance.randrange(n_results)
    until(lambda: len(project.computed()) >= wanted or process.poll() is not None, PATIENCE)
    time.sleep(chance.random())
    victims = spawned if target == "task process" else lambda pid: [process]
    until(lambda: victims(process.pid) or process.poll() is not None, PATIENCE)
    before = project.computed()
    if not (found := victims(process.pid)) or process.poll() is not None:
        process.wait(PATIENCE)
        return None
    if target in INTERRUPTED:
        for _ in range(1 + target.endswith("twice")):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, INTERRUPTED[target])  # as a terminal does
            time.sleep(chance.choice((0.0, 0.01, 0.3)))
    else:
        chance.choice(found).kill()
    process.wait(PATIENCE)
    before |= project.computed()
    project.dpcost(*run)
    now = project.computed()
    time.sleep(1)
    return sum(now.get(name) != file for name, file in before.items()), len(processes_of(project.home))


def kill_at_random(project, undisturbed, seed):
    """Kill each target once; return those after which bytes differ, much is computed again or one left."""
    chance, failed = random.Random(seed), []
    for target in TARGETS:
        (project.out / "small" / "results.parquet").unlink(missing_ok=True)
        while (found := kill(project, target, chance, len(undisturbed.computed()))) is None:
            pass  # it came too late
        n_again, n_left = found
        if n_again > WORKERS or n_left or not project.same_results(undisturbed):
            failed.append((target, n_again, n_left))
    return failed
