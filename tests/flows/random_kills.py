"""Ends a random process of a run at a random moment, runs the command again, and looks at what came of it.

Each kill starts without a cache: what is stored is what the killed run stored.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from small_project import DPCOST, PROJECT, processes_of, until

from data.store.folders import sha256_file

INTERRUPTED = {"ctrl-c": signal.SIGINT, "sigterm": signal.SIGTERM, "ctrl-c twice": signal.SIGINT}
TARGETS = ("flow", "task process", *INTERRUPTED)
WORKERS = 2
PATIENCE = 600.0


@dataclass
class Kill:
    """What came of one kill."""

    target: str
    hit: bool = False
    n_recomputed: int = 0
    same_bytes: bool = False
    left_running: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def passed(self):
        return self.hit and self.same_bytes and not self.left_running and self.n_recomputed <= WORKERS


class Killer:
    """A home, runs of a study in it, and whatever servers they need."""

    def __init__(self, folder, study, seed):
        self.folder, self.home, self.study = folder, folder / "home", study
        self.chance = random.Random(seed)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        self.environment = inherited | {"DPCOST_HOME": str(self.home), "OMP_NUM_THREADS": "1"}
        self.results = folder / "out" / Path(study).stem / "results.parquet"
        status, said = self.finish(self.start("local"))
        assert status == 0, said
        self.n_results, self.expected = self.count_results(), sha256_file(self.results)

    def kill(self, target):
        """Kill one process of a run, run again, and look."""
        shutil.rmtree(self.home / "cache", ignore_errors=True)
        self.results.unlink(missing_ok=True)
        kill = Kill(target)
        process = self.start("dask" if target == "task process" else "local")
        wanted = self.chance.randrange(self.n_results)
        until(lambda: self.count_results() >= wanted or process.poll() is not None, PATIENCE)
        time.sleep(self.chance.random())
        victims = spawned if target == "task process" else lambda pid: [process]
        until(lambda: victims(process.pid) or process.poll() is not None, PATIENCE)
        before = self.stored()
        if (found := victims(process.pid)) and process.poll() is None:
            if target in INTERRUPTED:
                for _ in range(1 + target.endswith("twice")):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, INTERRUPTED[target])  # as a terminal does
                    time.sleep(self.chance.choice((0.0, 0.01, 0.3)))
            else:
                self.chance.choice(found).kill()
            kill.hit = True
        _, kill.said = self.finish(process)
        after = self.stored()
        status, said = self.finish(self.start("local"))
        kill.said += said if status else []
        now = self.stored()
        kill.n_recomputed = sum(now.get(name) != when for name, when in (before | after).items())
        kill.same_bytes = self.results.exists() and self.expected == sha256_file(self.results)
        time.sleep(1)
        kill.left_running = len(processes_of(self.home))
        return kill

    def start(self, engine):
        options = ["--profile", "smoke", "--offline", "--engine", engine, "--workers", str(WORKERS)]
        command = [sys.executable, "-c", DPCOST, "run", self.study, *options]
        with open(self.folder / "said", "wb") as said:
            return subprocess.Popen(
                [*command, "--out", str(self.folder / "out")],
                cwd=PROJECT,
                env=self.environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
                # A shell may have started the tests with Ctrl-C ignored, which children inherit.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def finish(self, process):
        status = process.wait(PATIENCE)
        return status, (self.folder / "said").read_text(errors="replace").splitlines()[-3:]

    def count_results(self):
        return len(self.stored())

    def stored(self):
        """Which file each result is in: another one where it was written again."""
        return {path.name: path.stat().st_ino for path in (self.home / "cache").glob("*/*[0-9a-f].*")}


def spawned(pid):
    found = []
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process(pid).children(recursive=True):
            if any("spawn_main" in word for word in each.cmdline()):
                found.append(each)
    return found


def kill_at_random(folder, study, seed, targets=TARGETS):
    killer, kills = Killer(folder, study, seed), []
    for target in targets:
        while not (kill := killer.kill(target)).hit:
            pass  # it came too late
        kills.append(kill)
    return kills
