"""One run at a time in a home; finished runs are listed, compared and repeated."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from small_project import sentence

from data.errors import StoreError
from data.results.table import to_parquet_bytes
from data.store.folders import sha256_file
from flows.history import recent_runs
from flows.launch import launch
from flows.lock import exclusive_run, holder
from flows.studies.results import folder_of_run, rebuild_reports, rerun_options, stored_page
from tasks import dask_cluster as dask_engine
from tasks.errors import SpecError
from tasks.report.manifest import sealed
from tasks.report.write import write_index
from tasks.run_options import RunOptions
from tests.builders import BOUNDS, CATEGORIES, people, refused
from tests.tasks.analyst_tables import initialized
from tests.tasks.blocks import results_table

LAST = {"profile": "smoke", "replicates": 3, "seed": 5, "command": "dpcost run housing --profile smoke"}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "housing").mkdir()
    (tmp_path / "housing" / "manifest.json").write_text(json.dumps(LAST))
    return tmp_path


def rerun(out, task="collect", cell=None):
    return rerun_options("housing", task, cell, out, out=str(out), offline=False)


def test_a_rerun_repeats_the_last_run(out):
    options, command = rerun(out)
    assert options.recorded().items() <= LAST.items()
    assert command == LAST["command"]


def test_a_run_with_another_out_is_named(out, tmp_path):
    use = lambda: rerun_options("housing", "collect", None, tmp_path / "o", out=None, offline=False)  # noqa: E731
    refused(use, SpecError, "add that --out")


def test_a_cell_has_to_exist_at_that_profile(out):
    key = "ols:public:n=100"
    rerun(out, "run_block", key)
    refused(lambda: rerun(out, "run_block", "ols:pubic:n=100"), SpecError, "did you mean 'ols:public:n=100'")
    refused(lambda: rerun(out, "run_block", "ols:public:n=200"), SpecError, "at profile smoke")
    refused(lambda: rerun(out, "run_block", "ols:public:n=99"), SpecError, "did you mean 'ols:public:n=100'")


PROFILES = [("standard", "smoke", "smoke"), ("paper", "smoke", "smoke"), ("paper", "standard", "standard")]
PROFILES += [("smoke", "standard", ""), ("standard", "standard", ""), ("unknown", "smoke", "")]


@pytest.mark.parametrize(("last", "now", "folder"), PROFILES)
def test_a_poorer_profile_lies_next_to_a_richer_report_from_which_reruns_go_on(out, last, now, folder):
    (out / "housing" / "manifest.json").write_text(json.dumps(LAST | {"profile": last}))
    assert folder_of_run(out, "housing", now) == out / folder
    assert folder_of_run(out, "snp", now) == out
    if folder:
        assert rerun(out)[0].profile == last


def with_results(out, **manifest):
    """Write results next to the manifest of a run that knows them."""
    path = out / "housing" / "results.parquet"
    path.write_bytes(to_parquet_bytes(results_table([1.0, 2.0])))
    known = LAST | {"results_sha256": sha256_file(path)} | manifest
    (out / "housing" / "manifest.json").write_text(json.dumps(known))


def test_results_that_are_not_the_manifests_are_refused(out):
    with_results(out, results_sha256="0" * 64)
    refused(lambda: rebuild_reports(["housing"], out), SpecError, "manifest")
    with_results(out)
    with pytest.raises(KeyError):  # as far as the page, which needs the whole manifest
        rebuild_reports(["housing"], out)


EDITED = {"page": {}, "profile": "paper", "data": [{"name": 1}], "budgets": None}


@pytest.mark.parametrize("key", EDITED)
def test_a_manifest_that_somebody_edited_is_refused_and_not_listed_in_the_index(out, caplog, key):
    file, summary = out / "housing" / "manifest.json", out / "housing" / "summary.csv"
    summary.write_text("panel,data_source,estimator\n")
    about = {"title": "Houses", "headline": "Privacy costs.", "panel": "", "errors": None}
    file.write_bytes(sealed(LAST | {"page": about, "finished": "2026-11-01T00:00:00+00:00"}))
    assert "Privacy costs." in write_index(out).read_text()
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: EDITED[key]}))
    for use in (lambda: rebuild_reports(["housing"], out), lambda: rerun(out)):
        refused(use, SpecError, "it changed after the run", f"dpcost run housing --out {out}")
    assert "Privacy costs." not in write_index(out).read_text()
    assert str(file) in caplog.text


@pytest.mark.parametrize("command", [{}, {"command": 3}])
def test_a_manifest_without_the_command_of_its_run_is_refused(out, command):
    plain = {key: value for key, value in LAST.items() if key != "command"} | command
    (out / "housing" / "manifest.json").write_text(json.dumps(plain))
    refused(lambda: rerun(out), SpecError, "cannot be used", f"dpcost run housing --out {out}")


def test_reports_are_rebuilt_after_a_run_that_is_under_way(out, home, monkeypatch):
    holders = []
    monkeypatch.setattr("flows.studies.results._stored", lambda *_: holders.append(holder(home)) or ((), {}))
    monkeypatch.setattr("flows.studies.results.write_report", lambda *_: None)
    rebuild_reports(["housing"], out)
    assert all(holders)
    assert holders


def test_results_of_another_study_file_are_not_shown_as_a_studys_own(out):
    with_results(out, study={"name": "housing", "sha256": "0" * 64})
    for show in (lambda: rebuild_reports(["housing"], out), lambda: stored_page("housing", out)):
        refused(show, SpecError, "another study file", f"dpcost run housing --out {out}")


def test_a_remedy_names_the_study_as_it_was_typed(tmp_path):
    file = initialized(tmp_path, people(), bounds=BOUNDS, categories=CATEGORIES, response="cost")
    refused(lambda: rebuild_reports([str(file)], tmp_path), SpecError, f"dpcost run {file}")


@pytest.mark.parametrize("cell", ["ols:public:n=100", "ols:other:n=9"])
def test_runs_of_different_studies_are_refused_by_their_names(tmp_path, command_line, cell):
    runs = tmp_path / "one", tmp_path / "other"
    for run, study, key in zip(runs, ("housing", "st-plain"), ("ols:public:n=100", cell), strict=True):
        run.mkdir()
        results_table([1.0, 1.1], cell=key).assign(study=study).to_parquet(run / "results.parquet")
        (run / "manifest.json").write_text(json.dumps({"study": {"name": study, "sha256": study}}))
    for option in ([], ["--json"]):
        said = sentence(command_line("compare", *runs, *option))
        assert [part for part in ("'housing'", "'st-plain'", str(runs[1])) if part not in said] == []


def test_recent_runs_are_listed_from_the_newest_on(tmp_path):
    for day, study in ((2, "snp"), (3, "mine"), (1, "housing"), (0, "damaged")):
        (tmp_path / study).mkdir()
        run = LAST | {"started": f"2026-01-0{day}T09", "finished": f"2026-01-0{day}T10"} if day else {}
        run |= {"warning": "one's own"} if study == "mine" else {}
        (tmp_path / study / "manifest.json").write_text(json.dumps(run))
    runs = [(run["study"], run["publication"]) for run in recent_runs(tmp_path / "home", tmp_path)]
    assert runs == [("mine", "not for publication"), ("snp", ""), ("housing", "")]
    assert [run["study"] for run in recent_runs(tmp_path / "home", tmp_path, limit=1)] == ["mine"]
    below = tmp_path / "trial" / "snp"  # of a run with --out
    below.mkdir(parents=True)
    (below / "manifest.json").write_text(json.dumps(LAST | {"started": "2027-01-01T09", "finished": ""}))
    assert [run["study"] for run in recent_runs(tmp_path / "home", tmp_path, limit=1)] == ["trial/snp"]


def test_a_run_under_way_is_named_by_its_process(tmp_path):
    with exclusive_run(tmp_path / "home"):
        (run,) = recent_runs(tmp_path / "home", tmp_path / "out")
    assert run["status"] == "running"
    assert recent_runs(tmp_path / "home", tmp_path / "out") == []


def test_a_worker_closes_its_home_to_other_accounts(home):
    (home / "cache").mkdir(parents=True)
    (home / "cache").chmod(0o755)
    assert dask_engine.check_worker(dask_engine._code(), dask_engine._results_at()) == ""
    assert [(home / name).stat().st_mode & 0o777 for name in ("store", "cache")] == [0o700, 0o700]


LOCKER = """
import signal, sys, time
from pathlib import Path
from flows.lock import exclusive_run
signal.signal(signal.SIGINT, signal.default_int_handler)
with exclusive_run(Path(sys.argv[1])):
    print("has it", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def locker(home, seconds):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", LOCKER, str(home), str(seconds)], **pipes)


def test_a_second_run_waits_and_gets_the_place_of_a_killed_one(tmp_path):
    first = locker(tmp_path, 60)
    assert first.stdout.readline() == "has it\n"
    assert holder(tmp_path).startswith(f"{first.pid} of ")
    waiting = locker(tmp_path, 0)
    assert f"process {first.pid} of " in waiting.stdout.readline()
    first.kill()
    first.wait()
    assert waiting.communicate(timeout=10)[0].endswith("has it\n")
    assert waiting.returncode == 0
    assert holder(tmp_path) == ""


def test_its_holder_may_take_it_again_and_it_is_free_after_an_error(tmp_path, capsys):
    with pytest.raises(ZeroDivisionError), exclusive_run(tmp_path), exclusive_run(tmp_path):
        raise ZeroDivisionError
    assert holder(tmp_path) == ""
    with exclusive_run(tmp_path):
        assert holder(tmp_path)
    assert capsys.readouterr().err == ""


def test_a_report_folder_is_claimed_after_the_run_that_is_under_way(tmp_path, home, monkeypatch):
    folder = tmp_path / "smoke" / "housing"

    @contextmanager
    def wait_for_other_run(_):
        folder.mkdir(parents=True)
        (folder / "notes.txt").touch()
        (tmp_path / "housing").mkdir()
        (tmp_path / "housing" / "manifest.json").write_text(json.dumps(LAST | {"profile": "standard"}))
        yield

    monkeypatch.setattr("flows.launch.exclusive_run", wait_for_other_run)
    options = RunOptions(profile="smoke", out=str(tmp_path), offline=True)
    refused(lambda: launch(["housing"], options), StoreError, folder, "no run wrote")
