"""Kills a random process of a run at a random moment, runs the command again, and looks at what came of it.

    python tests/flows/random_kills.py FOLDER --kills 50 --seed 1

Each kill starts without a cache: what is stored is what the killed run stored. A line of JSON per kill goes
to standard output and to FOLDER/kills.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from data.store.folders import sha256_file
from flows.server.postgres import DATABASE_URL, start_postgres
from flows.server.prefect_server import answers, free_port, own_authentication, server_process
from flows.server.processes import started_processes

PROJECT = Path(__file__).resolve().parents[2]
TARGETS = ("flow", "task process", "dask worker", "scheduler", "server", "postgres")
WORKERS = 2
PATIENCE = 600.0


@dataclass
class Kill:
    """What came of one kill: after how many results it hit, and the exit status of the run that was hit."""

    number: int
    target: str
    study: str
    after: int = 0
    hit: bool = False
    status: int | None = None
    n_stored: int = 0
    n_recomputed: int = 0
    same_bytes: bool = False
    left_running: int = 0
    n_blocks: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.hit and self.same_bytes and not self.left_running and self.n_recomputed <= WORKERS


class Killer:
    """A home, its runs, and whatever servers and clusters they need."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.home, self.chance = folder, folder / "home", random.Random(seed)
        self.standing = self.home
        self.n_results: dict[str, int] = {}
        self.expected: dict[str, str] = {}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        self.environment = inherited | {"DPCOST_HOME": str(self.home), "OMP_NUM_THREADS": "1"}

    def undisturbed(self, study: str) -> None:
        """Run a study once, to know its bytes and how many results it stores."""
        shutil.rmtree(self.home / "cache", ignore_errors=True)
        status, said = self.finish(self.start(study, "local"))
        assert status == 0, said
        self.n_results[study] = self.count_results()
        self.expected[study] = sha256_file(self.results(study))

    def kill(self, number: int, target: str, study: str) -> Kill:
        """Kill one process of a run, run again, and look."""
        shutil.rmtree(self.home / "cache", ignore_errors=True)
        self.results(study).unlink(missing_ok=True)
        hit = Kill(number, target, study)
        with contextlib.ExitStack() as stack:
            engine, more, victims = self.surroundings(target, stack)
            process = self.start(study, engine, **more)
            hit.after = self.chance.randrange(self.n_results[study])
            while self.count_results() < hit.after and process.poll() is None:
                time.sleep(0.02)
            time.sleep(self.chance.random())
            while not (found := victims(process)) and process.poll() is None:
                time.sleep(0.05)
            before = self.stored()
            if found and process.poll() is None:
                self.chance.choice(found).kill()
                hit.hit = True
            hit.status, hit.said = self.finish(process)
            hit.n_stored = len(before)
            after = self.stored()
        status, said = self.finish(self.start(study, "local"))
        if status != 0:
            hit.said += said
        now = self.stored()
        hit.n_blocks = len(now)
        hit.n_recomputed = sum(now.get(name) != when for name, when in (before | after).items())
        hit.same_bytes = self.results(study).exists() and self.expected[study] == sha256_file(
            self.results(study)
        )
        time.sleep(1)
        hit.left_running = len(started_processes(self.home)) + len(self.of_home())
        return hit

    def surroundings(self, target: str, stack: contextlib.ExitStack):
        """Return the engine, the environment and who is to be killed, once what is needed runs."""
        if target == "flow":
            return "local", {}, lambda process: [process]
        if target == "task process":
            return "dask", {}, lambda process: spawned(process.pid)
        if target == "server":
            return "local", {}, lambda process: self.supervised("server", process.pid)
        if target == "postgres":
            more = stack.enter_context(self.postgres())
            return "local", more, lambda process: self.supervised("postgres", os.getpid())
        address, scheduler, worker = stack.enter_context(self.dask())
        if target == "scheduler":
            return address, {}, lambda process: [scheduler]
        return address, {}, lambda process: spawned(worker.pid)

    @contextlib.contextmanager
    def postgres(self) -> Iterator[dict[str, str]]:
        """Run a server on PostgreSQL, as ``make serve-postgres`` does."""
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
            Path(name).chmod(0o755)  # PostgreSQL refuses to run as root, so its user has to get in
            home = self.standing = Path(name) / "standing"
            database, url = start_postgres(home)
            stack.callback(database.stop)
            environment, port = self.environment | {DATABASE_URL: url}, free_port()
            server, api_url = server_process(home, port, environment), f"http://127.0.0.1:{port}/api"
            server.start(ready=lambda: answers(api_url))
            try:
                yield {
                    "PREFECT_API_URL": api_url,
                    "PREFECT_API_AUTH_STRING": own_authentication(home),
                }
            finally:
                server.stop()

    @contextlib.contextmanager
    def dask(self) -> Iterator[tuple[str, subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
        """Run a scheduler and a worker process with a nanny per worker."""
        port = free_port()
        started = []

        def start(program: str, *options: str) -> subprocess.Popen[bytes]:
            command = [
                sys.executable,
                "-m",
                f"distributed.cli.dask_{program}",
                "--host",
                "127.0.0.1",
                *options,
            ]
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started.append(process)
            return process

        try:
            scheduler = start("scheduler", "--port", str(port), "--no-dashboard")
            address = f"tcp://127.0.0.1:{port}"
            worker = start("worker", address, "--nworkers", str(WORKERS), "--nthreads", "1", "--no-dashboard")
            from distributed import Client

            with Client(address, timeout=120, set_as_default=False) as client:
                client.wait_for_workers(WORKERS, timeout=120)
            yield f"dask://127.0.0.1:{port}", scheduler, worker
        finally:
            for process in started:
                for each in [*children(process.pid), process]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
                process.wait()

    def start(self, study: str, engine: str, **more: str) -> subprocess.Popen[bytes]:
        options = ["--profile", "smoke", "--offline", "--engine", engine, "--workers", str(WORKERS)]
        code = "import sys; from flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"
        with open(self.folder / "said", "wb") as said:
            return subprocess.Popen(
                [sys.executable, "-c", code, "run", study, *options, "--out", str(self.folder / "out")],
                cwd=PROJECT,
                env=self.environment | more,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes]) -> tuple[int, list[str]]:
        """Return how a run ended, and the last that it said."""
        status = process.wait(PATIENCE)
        return status, (self.folder / "said").read_text(errors="replace").splitlines()[-3:]

    def count_results(self) -> int:
        """Return how many results are stored, of blocks and of other tasks."""
        return len(list((self.home / "cache" / "records").glob("*-*")))

    def stored(self) -> dict[str, int]:
        """Return when each block's rows were written, of those that have a record."""
        cache = self.home / "cache"
        return {
            path.name: (cache / "blocks" / f"{path.name}.parquet").stat().st_mtime_ns
            for path in (cache / "records").glob("block-*")
        }

    def results(self, study: str) -> Path:
        return self.folder / "out" / Path(study).stem / "results.parquet"

    def supervised(self, name: str, owner: int) -> list[psutil.Process]:
        found = [each for home in (self.home, self.standing) for each in started_processes(home)]
        return [
            psutil.Process(each.process.pid)
            for each in found
            if each.name == name and each.owner.pid == owner
        ]

    def of_home(self) -> list[psutil.Process]:
        """Return the other processes that still run with this home."""
        found = []
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                mine = each.environ().get("DPCOST_HOME") == str(self.home)
                if mine and each.pid != os.getpid() and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
        return found


def children(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def spawned(pid: int) -> list[psutil.Process]:
    """Return the processes below one that compute: those that Python's multiprocessing spawned."""
    found = []
    for each in children(pid):
        with contextlib.suppress(psutil.Error):
            if any("spawn_main" in word for word in each.cmdline()):
                found.append(each)
    return found


def kill_at_random(folder: Path, n_kills: int, seed: int, studies: list[str]) -> list[Kill]:
    """Kill, each kind of process in turn, and return what came of it."""
    killer, kills = Killer(folder, seed), []
    folder.mkdir(parents=True, exist_ok=True)
    for study in sorted(set(studies)):
        killer.undisturbed(study)
    for number in range(n_kills):
        target, study = TARGETS[number % len(TARGETS)], killer.chance.choice(studies)
        while not (kill := killer.kill(number, target, study)).hit:
            pass  # it came too late
        kills.append(kill)
        line = json.dumps({**vars(kills[-1]), "passed": kills[-1].passed})
        print(line, flush=True)
        with open(folder / "kills.jsonl", "a") as log:
            print(line, file=log)
    return kills


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--studies", nargs="+", default=["housing", "housing", "swarm"])
    options = parser.parse_args()
    found = kill_at_random(options.folder.resolve(), options.kills, options.seed, options.studies)
    print(f"{sum(each.passed for each in found)} of {len(found)} passed")
    sys.exit(not all(each.passed for each in found))
