"""A Dask scheduler and workers in folders of their own, as on several machines, with an S3 server for all."""

import shutil
import subprocess
import sys
import time

import psutil
import pytest
from small_project import Project, processes_of, until

from tests.builders import copied_project
from tests.own_processes import end_with_parent, free_port

pytest.importorskip("distributed")
from distributed import Client

pytestmark = [pytest.mark.server, pytest.mark.slow]


class Cluster:
    """A scheduler, and machines with a worker each: a copy of the code and a home of its own."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment
        self.processes, self._port = {}, free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"
        self.engine = self.address.replace("tcp", "dask")

    def start(self):
        place = ("--host", "127.0.0.1", "--port", self._port)
        self._start("scheduler", self.folder, *place, "--no-dashboard")
        self.client().close()  # it is there

    def machine(self, name):
        return copied_project(self.folder / name, "__pycache__")

    def work(self, name, **environment):
        folder = self.folder / name
        options = ("--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", "--name", name)
        self._start(f"worker-{name}", folder, self.address, *options, **environment)

    def _start(self, name, folder, *options, **environment):
        program = name.partition("-")[0]
        with open(self.folder / f"{name}.log", "wb") as log:
            words = [sys.executable, "-m", f"distributed.cli.dask_{program}", *map(str, options)]
            own = {"DPCOST_HOME": str(folder / "home"), "PYTHONPATH": str(folder), **environment}
            place = {"cwd": folder, "env": self.environment | own, "start_new_session": True}
            pipes = {"stdout": log, "stderr": subprocess.STDOUT, "preexec_fn": end_with_parent}
            self.processes[name] = subprocess.Popen(words, **place, **pipes)

    def client(self):
        return Client(self.address, timeout=200, set_as_default=False)

    def wait_for_workers(self, count):
        with self.client() as client:
            client.wait_for_workers(count, timeout=200)

    def run(self, project, profile):
        """Start a run of a project on this cluster; return its process."""
        options = ("--profile", profile, "--engine", self.engine, "--out", project.out)
        return project.start("run", project.study, *options)

    def kill(self, name):
        process = self.processes.pop(name)
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
        process.wait()

    def stop(self):
        for name in list(self.processes):
            self.kill(name)


@pytest.fixture
def cluster(tmp_path_factory, project, s3_server, bucket):
    """A scheduler and three machines, without workers yet; the project shares a store with them."""
    project.environment |= s3_server | {"DPCOST_STORE": f"s3://{bucket}/dpcost"}
    started = Cluster(tmp_path_factory.mktemp("cluster"), project.environment)
    try:
        started.start()
        for name in "abc":
            started.machine(name)
        yield started
    finally:
        started.stop()


def blocks_of(cluster):
    pattern = "home/cache/run_block-*.parquet"
    return {name: len(list((cluster.folder / name).glob(pattern))) for name in "abc"}


def test_three_machines_give_the_same_bytes_and_survive_the_loss_of_one(cluster, project, long):
    for name in "abc":
        cluster.work(name)
    cluster.wait_for_workers(3)
    process = cluster.run(project, "paper")
    until(lambda: any(blocks_of(cluster).values()) or process.poll() is not None, 400)
    cluster.kill("worker-a")
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    assert project.same_results(long[0])
    done = blocks_of(cluster)
    assert done["b"] + done["c"] > 0
    # The home can be lost: everything is at the address.
    shutil.rmtree(project.home / "cache")
    (project.out / "small" / "results.parquet").unlink()
    cluster.kill("worker-b")
    cluster.kill("worker-c")
    _, err = project.dpcost("run", project.study, "--profile", "paper", "--out", project.out)
    assert "all from the cache" in err
    assert project.same_results(long[0])


def test_two_clients_of_one_worker_run_the_same_study(cluster, project, tmp_path_factory, undisturbed):
    """The second result of a block replaced the first one at the address, and a run failed."""
    cluster.work("a")
    cluster.wait_for_workers(1)
    other = Project(tmp_path_factory.mktemp("other"), "two")
    other.environment |= {k: v for k, v in project.environment.items() if k.startswith(("AWS_", "DPCOST_S"))}
    both = [(each, cluster.run(each, "smoke")) for each in (project, other)]
    for each, process in both:
        _, err = process.communicate(timeout=400)
        assert process.returncode == 0, err
        assert each.same_results(undisturbed)


def test_a_run_that_is_frozen_for_longer_than_a_silence_goes_on(cluster, project, undisturbed):
    cluster.work("a")
    cluster.wait_for_workers(1)
    process = cluster.run(project, "smoke")
    stored = cluster.folder / "a" / "home" / "cache"
    until(lambda: list(stored.glob("prepare-*.npz")) or process.poll() is not None, 400)
    frozen = processes_of(project.home)
    for each in frozen:
        each.suspend()
    time.sleep(45)
    for each in frozen:
        each.resume()
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    assert project.same_results(undisturbed)


def test_a_run_whose_scheduler_is_gone_ends_in_a_sentence(cluster, project, undisturbed):
    cluster.work("a")
    cluster.wait_for_workers(1)
    process = cluster.run(project, "paper")
    stored = cluster.folder / "a" / "home" / "cache"
    until(lambda: list(stored.glob("prepare-*.npz")) or process.poll() is not None, 400)
    cluster.kill("scheduler")
    _, err = process.communicate(timeout=400)
    assert process.returncode == 1, err
    assert f"the Dask scheduler at {cluster.address} " in err
    assert "run the same command again to continue" in err
    assert "internal error" not in err
    assert "Traceback" not in err
    until(lambda: processes_of(project.home) == [], 20)  # the server ends by itself, as after kill -9
    project.run()
    assert project.same_results(undisturbed)
