"""Whole runs of ``dpcost`` on a small study, with a real server: stored, repeated, interrupted and killed."""

import json
import os
import re
import signal
import sqlite3
from collections import Counter

import numpy as np
import pytest
from small_project import DPCOST, Project, processes_of, until

from data.store.folders import sha256_file
from tests.tasks.protocol.trials import SMALL, SMALL_N, written

pytestmark = [pytest.mark.server, pytest.mark.slow]
# Any call of an estimator is an error.
NO_ESTIMATOR = f"""
import dpalgos
def estimate(*_, **__):
    raise AssertionError("an estimator was called")
dpalgos.estimate = estimate
{DPCOST}
"""


@pytest.fixture
def ran(project, undisturbed):
    project.run()
    return project


def states(project):
    with sqlite3.connect(project.home / "prefect" / "prefect.db") as database:
        found = (database.execute(f"select state_type from {table}") for table in ("flow_run", "task_run"))
        return [[state for (state,) in rows] for rows in found]


def logged(project):
    with sqlite3.connect(project.home / "prefect" / "prefect.db") as database:
        rows = [*database.execute("select message from log")]
        for table in ("flow_run_state", "task_run_state"):
            rows += database.execute(f"select message from {table}")
    return "\n".join(str(message) for (message,) in rows)


def wait_for(condition, process):
    return until(lambda: condition() or process.poll() is not None, 180) and condition()


def blocks(project):
    return [name for name in project.computed() if name.startswith("run_block-")]


def patched(project, code):
    """Return the path of imports where Python runs a patch of a module as it starts."""
    (project.folder / "sitecustomize.py").write_text(code)
    return f"{project.folder}:{project.environment['PYTHONPATH']}"


def nothing_runs(project):
    return processes_of(project.home) == []


def test_a_run_ends_in_a_report_and_the_same_again_computes_nothing(ran):
    files = {"report.html", "report.md", "results.parquet", "timings.parquet", "summary.csv", "manifest.json"}
    assert files <= {path.name for path in (ran.out / "small").iterdir()}
    before, written = sha256_file(ran.out / "small" / "results.parquet"), ran.computed()
    command = "run", ran.study, "--profile", "smoke", "--out", ran.out
    out, err = ran.start(*command, code=NO_ESTIMATOR).communicate()
    assert out == f"{ran.out / 'index.html'}\n", err
    assert "4 blocks, all from the cache" in err
    assert sha256_file(ran.out / "small" / "results.parquet") == before
    assert ran.computed() == written
    assert nothing_runs(ran)
    flow_runs, task_runs = states(ran)
    assert flow_runs == ["COMPLETED"]  # the second needed no server
    assert task_runs == ["COMPLETED"] * (2 + 2 + 4 + 1 + 1 + 1 + 1)
    with sqlite3.connect(ran.home / "prefect" / "prefect.db") as database:
        assert not database.execute("select id from events").fetchall()  # which nobody sees


# The first calls of a function in workers end these, as the system does where memory ends.
KILLED = """
import os, signal, sys
from pathlib import Path
if "-m" not in sys.orig_argv:
    import {module} as module
    function, place = module.{function}, Path({place!r})
    def killed(*given, **named):
        if {condition} and len([*place.glob("killed *")]) < {times}:
            (place / f"killed {{os.getpid()}}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **named)
    module.{function} = killed
"""
OF_A_BLOCK = {"module": "tasks.run.compute", "function": "timed_block"}
OF_A_BLOCK["condition"] = "given[0].replicates.n == 100"
OF_AN_AUDIT = {"module": "dpalgos.audit.lower_bound", "function": "audit_estimator", "condition": "True"}


@pytest.mark.parametrize(("times", "status"), [(1, 0), (20, 2)])
@pytest.mark.parametrize("killed", [OF_A_BLOCK, OF_AN_AUDIT], ids=["block", "audit"])
def test_what_a_killed_worker_did_is_tried_once_more(project, killed, times, status):
    """No audit is stored of this ε."""
    text, trials = project.study.read_text(), "\naudit_trials = { standard = 1000 }"
    text = text.replace("\nheadline", trials + "\nheadline")
    project.study.write_text(
        text.replace("epsilon = [0.5]", "epsilon = [0.51]").replace("epsilon = 0.5,", "epsilon = 0.51,")
    )
    path = patched(project, KILLED.format(place=str(project.folder), times=times, **killed))
    run = ["run", project.study, "--profile", "standard", "--out", project.out]
    _, err = project.dpcost(*run, status=status, PYTHONPATH=path)
    if status:
        assert "killed twice" in err
        assert " MB were free" in err
        kept = project.computed()
        assert any(name.startswith("run_block-") for name in kept)  # those of the other blocks
        project.dpcost(*run)
        assert kept.items() <= project.computed().items()
    assert project.results["audited_epsilon"].notna().any()
    assert nothing_runs(project)


RAISING = """
import sys
if "prefect" not in sys.argv and "-m" not in sys.orig_argv:
    import tasks.run.compute
    def raising(*_):
        raise ValueError("secret 42.5")
    {place} = raising
"""
IN_A_BLOCK, IN_A_DESIGN = "tasks.run.compute.timed_block", "tasks.run.compute.Target.write"
PLACES = [("local", IN_A_BLOCK), ("dask", IN_A_BLOCK), ("local", IN_A_DESIGN)]


@pytest.mark.parametrize(("engine", "place"), PLACES)
def test_an_internal_error_in_a_worker_is_one_sentence_and_shows_no_data(project, engine, place):
    pytest.importorskip("distributed")
    path = patched(project, RAISING.format(place=place))
    _, err = project.run("--engine", engine, "--workers", "2", status=1, PYTHONPATH=path)
    assert "dpcost: internal error, ValueError in tasks/run/compute.py:" in err
    assert "PrivacyWarning" not in err
    assert "secret" not in err + logged(project) + (project.home / "faults.log").read_text()
    assert states(project)[0] == ["FAILED"]
    assert nothing_runs(project)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_or_killed_run_keeps_what_is_finished(project, others, long, number):
    """Of three studies, or of one."""
    run = words_of(project, others if number == signal.SIGINT else [], "paper")
    process = project.start(*run)
    wait_for(lambda: len(blocks(project)) > 1, process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 1), err
    assert number == signal.SIGKILL or "run the same command again" in err
    assert "Traceback" not in err
    until(lambda: nothing_runs(project))
    kept = project.computed()
    assert len(kept) > 1
    project.dpcost(*run)
    assert kept.items() <= project.computed().items()
    assert "COMPLETED" in states(project)[0]  # what died is ended by `make serve`, whose pages show it
    assert project.same_results(long[0])


# The third write of a kind of file kills the command, and leaves what was written until then.
KILLED_IN_A_RECORD = """
import flows.launch, os
load, written = flows.launch._load, []
def loaded():
    from prefect.filesystems import LocalFileSystem
    load()
    def write(self, path, content, **_):
        file = self._resolve_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        written.append(path)
        file.write_bytes(content[: len(content) // 2] if len(written) == 3 else content)
        if len(written) == 3:
            os.kill(os.getpid(), 9)
        return str(file)
    LocalFileSystem.write_path = write
flows.launch._load = loaded
"""
KILLED_BEFORE_A_RENAME = """
import os, sys
from pathlib import Path
if "-m" not in sys.orig_argv:
    replace = os.replace
    def killing(temporary, path):
        if Path(path).name.startswith("run_block-") and len([*Path(path).parent.glob("run_block-*")]) == 2:
            import psutil, time
            psutil.Process().parent().parent().kill()  # of the process that workers are forked from
            time.sleep(60)
        return replace(temporary, path)
    os.replace = killing
"""


@pytest.mark.parametrize("write", ["record", "file"])
def test_a_run_that_is_killed_in_a_write_leaves_nothing_that_the_next_one_takes(project, undisturbed, write):
    words = ["run", project.study, "--profile", "smoke", "--out", project.out]
    if write == "record":
        process = project.start(*words, code=KILLED_IN_A_RECORD + DPCOST)
    else:
        process = project.start(*words, PYTHONPATH=patched(project, KILLED_BEFORE_A_RENAME))
    _, err = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, err
    until(lambda: nothing_runs(project))
    project.run()
    assert project.same_results(undisturbed)
    assert [*project.home.rglob("*.part")] == []


def test_runs_in_two_homes_at_the_same_time_do_not_disturb_each_other(project, undisturbed):
    homes = [project, Project(project.folder, "two")]
    words = ["run", project.study, "--profile", "smoke", "--out"]
    processes = [each.start(*words, each.out) for each in homes]
    assert [(process.communicate(timeout=300), process.returncode)[1] for process in processes] == [0, 0]
    assert all(each.same_results(undisturbed) for each in homes)
    assert all(nothing_runs(each) for each in homes)


ONE_FAILING = """
import sys
if "-m" not in sys.orig_argv:
    import tasks.run.compute
    timed_block = tasks.run.compute.timed_block
    def failing(block, *others):
        if block.replicates.study == "small":
            raise ValueError("secret 42.5")
        return timed_block(block, *others)
    tasks.run.compute.timed_block = failing
"""


@pytest.fixture
def others(project):
    paths = [project.study.with_name(f"{name}.toml") for name in ("second", "third")]
    for path in paths:
        path.write_text(project.study.read_text())
    return paths


def words_of(project, others, profile):
    return ["run", project.study, *others, "--profile", profile, "--out", project.out]


def test_one_that_fails_stops_no_other(project, others):
    path = patched(project, ONE_FAILING)
    out, err = project.dpcost(*words_of(project, others, "smoke"), status=1, PYTHONPATH=path)
    assert out == ""
    assert "internal error, ValueError" in err
    assert "secret" not in err
    assert sorted(re.findall(r"report: .*/(\w+)/report", err)) == ["second", "third"]
    assert states(project)[0] == ["FAILED"]


DOUBLED = """
import sys
if "-m" not in sys.orig_argv:
    import tasks.run.compute as run
    plain = run.table_bytes
    run.table_bytes = lambda rows: plain(rows.assign(value=2 * rows["value"]))
"""


def test_a_rerun_shows_the_numbers_that_it_computed(project):
    project.run()
    before = project.results
    words = ["rerun", project.study, "--task", "run_block", "--out", project.out]
    project.dpcost(*words, PYTHONPATH=patched(project, DOUBLED))
    keys = ["cell", "metric", "replicate"]
    both = project.results.merge(before, on=keys, suffixes=("", "_before"))
    assert len(both) == len(before)
    np.testing.assert_allclose(both["value"], 2 * both["value_before"])


FAULTY = """
from data.errors import StoreError
from data.ledger import Ledger
def fails(*_, **__):
    raise OSError("a fault between the charge and its result")
Ledger.store = fails
"""


def test_a_fault_after_the_charge_is_not_tried_again_by_anybodys_default(project):
    plan = written(project.folder, SMALL_N, SMALL)
    project.dpcost("ledger", "open", "trial", "--epsilon", 30, "--delta", 1e-6)
    defaults = {"PREFECT_TASKS_DEFAULT_RETRIES": "3", "PREFECT_FLOWS_DEFAULT_RETRIES": "2"}
    words = ["protocol", "release", plan, "--out", project.folder / "released", "--yes"]
    for again in ([], ["--again"]):
        process = project.start(*words, *again, code=FAULTY + DPCOST, **defaults)
        _, said = process.communicate(timeout=300)
        assert process.returncode, said
    (shown,) = json.loads(project.dpcost("ledger", "show", "--json")[0])
    charged = Counter(each["reserve"] for each in shown["charges"])
    assert charged
    assert max(charged.values()) <= 2  # once a command
    assert {each["state"] for each in shown["charges"]} == {"no answer"}
