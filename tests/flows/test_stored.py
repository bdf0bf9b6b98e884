"""A run of which everything is stored ends without Prefect; anything that changed is computed."""

import json
import shutil
from collections import namedtuple
from dataclasses import replace

import pandas as pd
import pytest
from small_project import Project

from data.errors import Unreachable
from data.fetch.raw import RawFile
from data.store import code_digest
from flows.studies.find_study import find_study
from flows.studies.results import finished_report
from tasks.cache import Again, prune
from tasks.run import datasets
from tasks.run.datasets import stored_tables
from tasks.run_options import RunOptions
from tests.plain_runs import run_plainly

Ran = namedtuple("Ran", "project study options")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("first"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCOST_HOME", str(project.home))
        run_plainly(project.study, options_of(project))
    return project


def options_of(project):
    return RunOptions(out=str(project.out), profile="smoke", offline=True)


@pytest.fixture
def ran(first, monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", str(first.home))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    kept = first.folder / "kept"
    for folder in (first.home, first.out):
        shutil.copytree(folder, kept / folder.name)
    yield Ran(first, str(first.study), options_of(first))
    for folder in (first.home, first.out):
        shutil.rmtree(folder)
        (kept / folder.name).replace(folder)
    kept.rmdir()
    code_digest._code_digest.cache_clear()


def is_finished(ran, **changed):
    return finished_report(ran.study, ran.options.model_copy(update=changed)) is not None


def run_again(ran, again=None):
    return run_plainly(ran.study, ran.options, again)[1]


N_DESIGNS = 2
N_RESULTS = N_DESIGNS + 4 + 1 + 1 + 1  # and blocks, table, exhibits, page


def test_it_is_found_and_every_task_of_a_server_of_ones_own_finds_its_result(ran, monkeypatch):
    monkeypatch.setattr("dpalgos.estimate", None)
    report = ran.project.out / "small" / "report.html"
    before = report.stat().st_mtime_ns
    assert finished_report(ran.study, ran.options) == report
    assert run_again(ran) == N_RESULTS
    assert report.stat().st_mtime_ns == before
    manifest = json.loads(report.with_name("manifest.json").read_text())
    assert manifest["blocks"] == {"computed": 4, "stored": 0}  # by the run that wrote the page
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")  # which shows all runs
    assert not is_finished(ran)


def one(folder, pattern):
    return next(iter(sorted(folder.glob(pattern))))


def spoil(path, damage):
    if damage == "gone":
        path.unlink()
        return
    content = path.read_bytes()
    middle = len(content) // 3
    end = middle + 64  # one byte of a page's header, which has no checksum, may change nothing
    path.write_bytes(content[:middle] + bytes(byte ^ 0xFF for byte in content[middle:end]) + content[end:])


DAMAGED = [("results.parquet", "gone"), ("results.parquet", "flipped"), ("timings.parquet", "flipped")]
DAMAGED += [("timings.parquet", "gone"), ("report.html", "gone"), ("report.html", "flipped")]
DAMAGED += [("manifest.json", "flipped")]


@pytest.mark.parametrize(("file", "damage"), DAMAGED)
def test_a_file_of_a_report_that_is_gone_or_damaged_is_made_again(ran, file, damage):
    results = (ran.project.out / "small" / "results.parquet").read_bytes()
    spoil(ran.project.out / "small" / file, damage)
    assert not is_finished(ran)
    run_again(ran)
    assert is_finished(ran)
    assert (ran.project.out / "small" / "results.parquet").read_bytes() == results


def swap(one, other):
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def in_headline_first(home):
    """Return the names of the stored blocks, first those of the headline's panel."""
    panels = {
        path.name.partition(".")[0]: pd.read_parquet(path)["panel"].iloc[0]
        for path in (home / "cache").glob("run_block-*.parquet")
    }
    return sorted(panels, key=lambda name: (panels[name] != "public", name))


FAULTS = ["gone", "cut", "empty", "flipped", "swapped"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", ["file", "record"])
def test_a_block_whose_file_or_record_is_damaged_is_computed_again_with_the_same_rows(ran, what, fault):
    results = ran.project.out / "small" / "results.parquet"
    before = results.read_bytes()
    place = "cache/{}.*" if what == "file" else "cache/records/{}"
    names = in_headline_first(ran.project.home)
    first, second = (one(ran.project.home, place.format(name)) for name in names[:2])
    content = first.read_bytes()
    half = content.index(b"cache/run_block") if what == "record" else len(content) // 2
    if fault == "gone":
        first.unlink()
    elif fault == "swapped":
        swap(first, second)
    else:
        flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        first.write_bytes({"cut": content[:half], "empty": b"", "flipped": flipped}[fault])
    n_damaged = 2 if fault == "swapped" else 1
    assert run_again(ran) == N_RESULTS - n_damaged - N_BELOW
    assert results.read_bytes() == before
    assert run_again(ran) == N_RESULTS


def test_a_report_folder_that_is_gone_is_written_again_from_stored_blocks(ran):
    results = (ran.project.out / "small" / "results.parquet").read_bytes()
    shutil.rmtree(ran.project.out)
    assert run_again(ran) == N_RESULTS - 2  # table and page
    assert (ran.project.out / "small" / "results.parquet").read_bytes() == results


def test_another_seed_is_computed_and_the_first_one_is_found_again(ran):
    results = ran.project.out / "small" / "results.parquet"
    first = results.read_bytes()
    other = ran.options.model_copy(update={"seed": 7})
    assert run_plainly(ran.study, other)[1] == N_DESIGNS
    assert results.read_bytes() != first
    assert run_again(ran) == N_RESULTS - 2  # table and page, which the other seed replaced
    assert results.read_bytes() == first


def test_what_pruning_deletes_is_computed_again_with_the_same_rows(ran):
    home, results = ran.project.home, ran.project.out / "small" / "results.parquet"
    first = results.read_bytes()
    assert prune(home, ran.project.out, everything=False)[0] == 0
    assert run_again(ran) == N_RESULTS
    (home / "cache" / "orphan.parquet").write_bytes(b"x")
    one(home, "cache/run_block-*.parquet").write_bytes(b"")
    assert prune(home, ran.project.out, everything=False)[0] == 1
    assert not (home / "cache" / "orphan.parquet").exists()
    assert run_again(ran) >= N_RESULTS - 1 - N_BELOW
    assert prune(home, ran.project.out, everything=True)[0] >= N_RESULTS
    assert not [path for path in (home / "cache").rglob("*") if path.is_file()]
    assert run_again(ran) == 0
    assert results.read_bytes() == first
    assert {path.stat().st_mode & 0o777 for path in (home / "cache").glob("*.*")} == {0o600}


def test_a_table_is_made_by_the_run_that_shows_progress(ran, monkeypatch):
    one(ran.project.home, "store/parquet/*.parquet").unlink()
    monkeypatch.setattr("data.fetch.ingest.store_table", None)
    assert not is_finished(ran)


def test_data_that_changed_in_the_store_are_fetched_again(ran):
    path = one(ran.project.home, "store/raw/**/*.tgz")
    content = path.read_bytes()
    path.write_bytes(content + b" ")
    assert is_finished(ran)  # a mirror has what was published
    assert path.read_bytes() == content


def test_data_that_nobody_has_now_are_named(ran, tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path))
    monkeypatch.setattr("data.fetch.raw.EMBEDDED", tmp_path)
    one(ran.project.home, "store/raw/**/*.tgz").unlink()
    assert not is_finished(ran)
    with pytest.raises(Unreachable, match="no such file"):
        run_again(ran)


def test_data_that_can_be_had_by_now_are_computed(ran, monkeypatch):
    made = RawFile("housing", "", "", "", "", "official")
    monkeypatch.setattr(datasets, "fetch_or_stand_in", lambda *_, **__: made)
    assert stored_tables(find_study(ran.study), ran.options) is None


@pytest.mark.parametrize("options", [{"seed": 1}, {"reps": 3}, {"profile": "standard"}])
def test_what_is_asked_anew_is_computed(ran, options):
    assert not is_finished(ran, **options)


def test_a_report_of_other_data_is_not_current(ran, monkeypatch):
    (table,) = stored_tables(find_study(ran.study), ran.options).values()
    other = {table.name: replace(table, sha256="0" * 64)}
    monkeypatch.setattr("flows.studies.results.stored_tables", lambda *_: other)
    assert not is_finished(ran)


def test_an_edited_study_is_computed(ran, tmp_path):
    text = ran.project.study.read_text()
    edited = tmp_path / ran.project.study.name
    edited.write_text(text.replace("covariate_bound = 3.0", "covariate_bound = 3.5"))
    assert finished_report(str(edited), ran.options) is None


N_BELOW = 2  # table and page follow a block, whose file holds the times that it took
AGAIN = [
    ("fetch", None, 0),
    ("parquet", None, 0),
    ("prepare", None, N_DESIGNS),
    ("run_block", None, 4 + N_BELOW),
    ("run_block", "ols:public:n=100", 1 + N_BELOW),
]
AGAIN += [("collect", None, 1), ("render", None, 1)]  # a task, one of its cells, how many are computed


@pytest.mark.parametrize(("task", "cell", "n_again"), AGAIN)
def test_a_task_computes_again_what_is_stored_with_the_same_bytes(ran, task, cell, n_again):
    results = (ran.project.out / "small" / "results.parquet").read_bytes()
    assert run_again(ran, Again(task, cell)) == N_RESULTS - n_again
    if task == "run_block":  # the page tells of it
        manifest = json.loads((ran.project.out / "small" / "manifest.json").read_text())
        assert manifest["blocks"]["computed"] == n_again - N_BELOW
    assert (ran.project.out / "small" / "results.parquet").read_bytes() == results


def test_an_audit_is_done_again_and_its_bound_stays(tmp_path, home):
    project = Project(tmp_path)
    text = project.study.read_text().replace("\nheadline", "\naudit_trials = { smoke = 1000 }\nheadline")
    project.study.write_text(text)
    options = options_of(project)
    run_plainly(project.study, options)
    (audited,) = project.results["audited_epsilon"].dropna().unique()
    n_results = N_RESULTS + 1
    assert run_plainly(project.study, options, Again("audit"))[1] == n_results - 1
    assert project.results["audited_epsilon"].dropna().unique() == [audited]
    assert run_plainly(project.study, options)[1] == n_results
