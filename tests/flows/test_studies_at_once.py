"""Several studies in one command, with a real server: they overlap, and read as if one followed another."""

import os
import re
import signal

import pytest
from flows.record.journal import history
from small_project import DPCOST
from test_run import blocks, nothing_runs, runs, states, wait_for

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

OVERLAPPING = f"""
import time
import tasks.run.block
from data.store.folders import home
from flows.record.journal import history
compute_block = tasks.run.block.compute_block
def waiting(block, *others):
    for _ in range(600):
        if block.replicates.study != "small" or len(history(home())) == 3:
            return compute_block(block, *others)
        time.sleep(0.1)
    raise TimeoutError("the other studies did not begin before the first had ended")
tasks.run.block.compute_block = waiting
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


def statuses(project):
    return {run["study"].rpartition("/")[2]: run["status"] for run in runs(project)}


def test_they_overlap_and_are_told_of_in_order(project, others, undisturbed):
    _, err = project.dpcost(*words(project, others, "smoke"), code=OVERLAPPING)
    assert re.findall(r"4/4 blocks|report: .*/(\w+)/report", err) == ["", "small", "", "second", "", "third"]
    assert project.same_results(undisturbed)
    assert {*statuses(project).values()} == {"completed"}
    flow_runs, task_runs = states(project)
    assert {*flow_runs} == {*task_runs} == {"COMPLETED"}
    assert len(task_runs) == 3 * (2 + 2 + 4 + 1 + 1 + 1 + 1)
    project.dpcost(*words(project, others, "smoke"))
    assert len(states(project)[0]) == len(flow_runs)  # all stored: without a server


def test_one_that_fails_stops_no_other(project, others):
    process = project.start(*words(project, others, "smoke"), code=FAILING)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert "internal error, ValueError" in err
    assert "secret" not in err
    assert re.findall(r"report: .*/(\w+)/report", err) == ["second", "third"]
    assert statuses(project) == {
        "small.toml": "failed",
        "second.toml": "completed",
        "third.toml": "completed",
    }


def test_all_are_interrupted_and_go_on_where_they_were(project, others, long):
    process = project.start(*words(project, others, "paper"))
    wait_for(lambda: len(blocks(project)) > 1 and len(history(project.home)) == 3, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "run the same command again" in err
    assert "Traceback" not in err
    assert nothing_runs(project)
    ended = sorted(statuses(project).values())  # the first may have been complete by then
    assert ended in ([*first, "interrupted", "interrupted"] for first in (["completed"], ["interrupted"]))
    assert states(project)[0].count("CRASHED") == ended.count("interrupted")
    kept = project.recorded()
    assert len(kept) > 1
    project.dpcost(*words(project, others, "paper"))
    assert kept.items() <= project.computed().items()
    assert project.same_results(long[0])


def test_those_killed_are_marked_as_crashed(project, others):
    process = project.start(*words(project, others, "paper"))
    wait_for(lambda: len(history(project.home)) == 3, process)
    process.kill()
    process.communicate()
    assert "running" not in statuses(project).values()
    assert statuses(project)["third.toml"] == "crashed"
