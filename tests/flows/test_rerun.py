"""One run at a time in a home; finished runs are listed, compared and repeated, and figures reproduced."""

import json
import math
import subprocess
import sys

import pandas as pd
import pytest
from small_project import sentence

import dpalgos
from data.store.folders import sha256_file
from flows.history import recent_runs
from flows.lock import exclusive_run, holder
from flows.studies import evidence as stored
from flows.studies.results import folder_of_run, rebuild_reports, rerun_options
from reports.results import to_parquet_bytes
from tasks import dask_cluster as dask_engine
from tasks.errors import SpecError
from tests.builders import refused
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
    other = tmp_path / "other"
    refused(
        lambda: rerun_options("housing", "collect", None, other, out=None, offline=False),
        SpecError,
        "add that --out",
    )


def test_a_cell_has_to_exist_at_that_profile(out):
    key = "ols:public:n=100"
    rerun(out, "run_block", key)
    refused(lambda: rerun(out, "run_block", "ols:pubic:n=100"), SpecError, "did you mean 'ols:public:n=100'")
    refused(lambda: rerun(out, "run_block", "ols:public:n=200"), SpecError, "at profile smoke")


PROFILES = [("standard", "smoke", "smoke"), ("paper", "smoke", "smoke"), ("paper", "standard", "standard")]
PROFILES += [("smoke", "standard", ""), ("standard", "standard", ""), ("unknown", "smoke", "")]


@pytest.mark.parametrize(("last", "now", "folder"), PROFILES)
def test_a_poorer_profile_lies_next_to_a_richer_report_from_which_reruns_go_on(out, last, now, folder):
    (out / "housing" / "manifest.json").write_text(json.dumps(LAST | {"profile": last}))
    assert folder_of_run(out, "housing", now) == out / folder
    assert folder_of_run(out, "snp", now) == out
    if folder:
        assert rerun(out)[0].profile == last


def test_results_that_are_not_the_manifests_are_refused(out):
    path = out / "housing" / "results.parquet"
    path.write_bytes(to_parquet_bytes(results_table([1.0, 2.0])))
    refused(lambda: rebuild_reports(["housing"], out), SpecError, "manifest")
    right = LAST | {"results_sha256": sha256_file(path)}
    (out / "housing" / "manifest.json").write_text(json.dumps(right))
    with pytest.raises(KeyError):  # as far as the page, which needs the whole manifest
        rebuild_reports(["housing"], out)


@pytest.fixture
def written_run(tmp_path):

    def write(name, study, digest, cell="ols:public:n=100"):
        folder = tmp_path / name
        folder.mkdir()
        results_table([1.0, 1.1], cell=cell).assign(study=study).to_parquet(folder / "results.parquet")
        (folder / "manifest.json").write_text(json.dumps({"study": {"name": study, "sha256": digest}}))
        return folder

    return write


@pytest.mark.parametrize("cell", ["ols:public:n=100", "ols:other:n=9"])
def test_runs_of_different_studies_are_refused_by_their_names(written_run, command_line, cell):
    runs = written_run("one", "housing", "a"), written_run("other", "st-plain", "b", cell)
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


def rows(*errors):
    """Return evidence of a made-up study: (estimator, mean, standard error) at one ε."""
    same = {"study": "mine", "n_ok": 20, "panel": "p", "form": "", "epsilon": 1.0, "delta_rule": "1/n^2"}
    same |= {"n": 100, "s": math.nan}
    return pd.DataFrame([same | {"estimator": name, "mean": mean, "se": se} for name, mean, se in errors])


def test_differences_count_both_errors_and_name_what_is_missing():
    shown = rows(("same", 0.5, 0.01), ("near", 0.5, 0.03), ("far", 0.5, 0.03), ("gone", 1.0, 0.1))
    again = rows(("same", 0.5, 0.01), ("near", 0.52, 0.04), ("far", 1.0, 0.04), ("new", 2.0, math.nan))
    found = stored.differences(shown, again)
    assert (found["identical"], found["cells"]) == (False, 3)
    (far,) = found["different"]
    assert ":far:" in far["cell"]
    assert (far["first"], far["second"]) == (0.5, 1.0)
    assert ":gone:" in found["only_first"][0]
    assert ":new:" in found["only_second"][0]
    assert stored.differences(shown.assign(s=20.0), shown.assign(s=20))["identical"]


def test_what_is_shown_was_measured_by_code_and_commands_that_are_there():
    rows = stored.evidence()
    assert set(rows.estimator) <= {entry.name for entry in dpalgos.catalog()}
    assert set(rows.profile) <= {"standard", "paper"}
    for figure in stored.figures():
        assert stored.digest(figure.modules)  # which reads each module
        assert ("{out}" in figure.command) == bool(figure.file)
        assert not figure.file or (stored.DOCS / figure.file).exists()


def test_what_other_code_measured_is_stale(monkeypatch):
    row = stored.evidence().iloc[[0]]
    current = stored.code_of(row.study.item(), row.panel.item(), row.estimator.item())
    assert current
    for code, n_stale in ((current, 0), ("another", 1)):
        monkeypatch.setattr(stored, "evidence", lambda code=code: row.assign(code=code))
        monkeypatch.setattr(stored, "figures", list)
        assert len(list(stored.stale())) == n_stale


def test_a_figure_is_measured_by_its_command_and_differences_are_shown(tmp_path, monkeypatch, command_line):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "shown.csv").write_text("x\n1\n2\n")
    (tmp_path / "measure.py").write_text("import sys; open(sys.argv[1], 'w').write('x\\n1\\n')")
    lines = {"place": "s", "command": f"python {tmp_path / 'measure.py'} {{out}}", "file": "shown.csv"}
    text = "".join(f'{key} = "{value}"\n' for key, value in {**lines, "code": ""}.items())
    text = f'[mine]\nminutes = 1\nmodules = ["dpalgos.api"]\n{text}'
    (docs / "measured.toml").write_text(text)
    (docs / "evidence.csv").write_text(",".join(stored.COLUMNS) + "\n")
    places = {"DOCS": docs, "EVIDENCE": docs / "evidence.csv", "MEASURED": docs / "measured.toml"}
    for name, place in places.items():
        monkeypatch.setattr(stored, name, place)
    monkeypatch.setattr("flows.studies.reproduction.REPORTS", tmp_path / "reports")
    monkeypatch.setattr("flows.studies.reproduction.commit", lambda: "0" * 40)
    assert "- 2" in command_line("reproduce", "mine")[1]
    assert (docs / "shown.csv").read_text() == "x\n1\n2\n"
    command_line("reproduce", "mine", "--update")
    assert (docs / "shown.csv").read_text() == "x\n1\n"
    assert not stored.figures()[0].stale
    assert "mine: the same" in command_line("reproduce", "mine")[1]
