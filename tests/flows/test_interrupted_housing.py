"""Ctrl-C and SIGTERM at random moments of a cold standard run of housing: the same command goes on."""

import os
import random
import signal
import subprocess
import time

import pytest
from small_project import Project, processes_of

pytestmark = [pytest.mark.server, pytest.mark.slow]

N_MOMENTS = 20
RUN = ("run", "housing", "--profile", "standard", "--offline", "--workers", 2, "--out")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the results of a run that nobody interrupts, and how many seconds it takes."""
    project, began = Project(tmp_path_factory.mktemp("whole")), time.monotonic()
    project.dpcost(*RUN, project.out)
    return results_of(project), time.monotonic() - began


def results_of(project):
    return (project.out / "housing" / "results.parquet").read_bytes()


@pytest.mark.parametrize("number", range(N_MOMENTS))
def test_an_interrupted_run_leaves_nothing_running_and_goes_on_from_its_blocks(project, whole, number):
    expected, seconds = whole
    process = project.start(*RUN, project.out)
    try:
        process.communicate(timeout=random.Random(number).uniform(1.0, seconds))
    except subprocess.TimeoutExpired:
        if number % 2:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        else:
            process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert "internal error" not in err
    assert process.returncode in (0, 1, 130, 143, -signal.SIGINT, -signal.SIGTERM), err
    assert processes_of(project.home) == []
    before = project.computed()
    project.dpcost(*RUN, project.out)
    after = project.computed()
    assert {name: after[name] for name in before} == before
    assert results_of(project) == expected
    project.dpcost("cache", "verify")
