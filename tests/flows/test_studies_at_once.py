"""Several studies in one command, with a real server: futures of one flow run."""

import os
import re
import signal

import pytest
from small_project import DPCOST
from test_run import blocks, nothing_runs, states, wait_for

pytestmark = [pytest.mark.server, pytest.mark.slow]

FAILING = f"""
import tasks.run.block
compute_block = tasks.run.block.compute_block
def failing(block, *others):
    if block.replicates.study == "small":
        raise ValueError("secret 42.5")
    return compute_block(block, *others)
tasks.run.block.compute_block = failing
{DPCOST}
"""


@pytest.fixture
def others(project):
    """The files of two more studies like the small one."""
    paths = [project.study.with_name(f"{name}.toml") for name in ("second", "third")]
    for path in paths:
        path.write_text(project.study.read_text())
    return paths


def words(project, others, profile):
    return ["run", project.study, *others, "--profile", profile, "--out", project.out]


def test_one_that_fails_stops_no_other(project, others):
    process = project.start(*words(project, others, "smoke"), code=FAILING)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert "internal error, ValueError" in err
    assert "secret" not in err
    assert re.findall(r"report: .*/(\w+)/report", err) == ["second", "third"]
    assert states(project)[0] == ["FAILED"]


def test_one_is_interrupted_and_goes_on_where_it_was(project, others, long):
    process = project.start(*words(project, others, "paper"))
    wait_for(lambda: len(blocks(project)) > 1, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "run the same command again" in err
    assert "Traceback" not in err
    assert nothing_runs(project)
    kept = project.computed()
    assert len(kept) > 1
    project.dpcost(*words(project, others, "paper"))
    assert kept.items() <= project.computed().items()
    assert project.same_results(long[0])
