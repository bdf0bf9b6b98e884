"""A run of which everything is stored ends without Prefect; anything that changed is computed."""

import json
import shutil
from collections import namedtuple

import pytest
import requests
from small_project import DPCOST, Project

from data.fetch.raw_files import RawFile
from data.store import code_digest
from flows.studies import stored
from flows.studies.find_study import find_study
from flows.studies.steps import StudySteps
from flows.studies.stored import NotStored, StoredResults, run_from_store
from tasks.ingest import fetch
from tasks.run_options import RunOptions
from tasks.turns import STOPPED
from tests.plain_tasks import PlainTasks

Ran = namedtuple("Ran", "project options")


def options_of(project):
    return RunOptions(study=str(project.study), out=str(project.out), profile="smoke", offline=True)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("first"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCOST_HOME", str(project.home))
        spec = find_study(str(project.study))
        StudySteps(spec, project.out, options_of(project), PlainTasks()).run()
    return project


@pytest.fixture
def ran(first, monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", str(first.home))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    kept = first.folder / "kept"
    for folder in (first.home, first.out):
        shutil.copytree(folder, kept / folder.name)
    yield Ran(first, options_of(first))
    for folder in (first.home, first.out):
        shutil.rmtree(folder)
        (kept / folder.name).replace(folder)
    kept.rmdir()
    code_digest._code_digest.cache_clear()


def test_it_ends_with_the_same_report_(ran, capsys, monkeypatch):
    monkeypatch.setattr("dpalgos.estimate", None)
    report = ran.project.out / "small" / "report.html"
    before = report.stat().st_mtime_ns
    done = run_from_store(ran.options)
    assert (done.report, done.index) == (report, ran.project.out / "index.html")
    assert done.headline
    assert report.stat().st_mtime_ns == before
    assert "4 blocks, all from the cache" in capsys.readouterr().err
    manifest = json.loads(report.with_name("manifest.json").read_text())
    assert manifest["blocks"] == {"computed": 4, "stored": 0}  # by the run that wrote the page


def test_prefect_is_not_imported(ran):
    code = f"import sys; sys.modules['prefect'] = None\n{DPCOST}"
    words = ["run", ran.project.study, "--profile", "smoke", "--offline", "--out", ran.project.out]
    process = ran.project.start(*words, code=code)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == f"{ran.project.out / 'index.html'}\n"


def one(folder, pattern):
    return next(iter(sorted(folder.glob(pattern))))


CHANGED_FILES = {
    "the table": lambda project: one(project.home, "store/parquet/*.parquet"),
    "a block": lambda project: one(project.home, "cache/blocks/block-*"),
    "measured times": lambda project: one(project.home, "cache/blocks/*timings*"),
    "a design": lambda project: one(project.home, "cache/designs/*"),
    "a record": lambda project: one(project.home, "cache/records/block-*"),
    "the results": lambda project: project.out / "small" / "results.parquet",
    "the page": lambda project: project.out / "small" / "report.html",
    "the manifest": lambda project: project.out / "small" / "manifest.json",
}


@pytest.mark.parametrize("damage", ["gone", "cut", "edited"])
@pytest.mark.parametrize("what", CHANGED_FILES)
def test_a_file_that_is_gone_or_damaged_is_made_again(ran, what, damage):
    path = CHANGED_FILES[what](ran.project)
    if damage == "gone":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-20] if damage == "cut" else content[:-3] + b"...")
    assert run_from_store(ran.options) is None


def test_a_table_is_made_by_the_run_that_shows_progress(ran, monkeypatch):
    one(ran.project.home, "store/parquet/*.parquet").unlink()
    monkeypatch.setattr("data.fetch.ingest._store", None)
    assert run_from_store(ran.options) is None


def test_data_that_changed_in_the_store_are_fetched_again(ran):
    path = one(ran.project.home, "store/raw/**/*.tgz")
    content = path.read_bytes()
    path.write_bytes(content + b" ")
    assert run_from_store(ran.options) is not None  # a mirror has what was published
    assert path.read_bytes() == content


def test_data_that_nobody_has_now_are_computed_from_a_stand_in(ran, tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path))
    monkeypatch.setattr("data.fetch.raw_files.EMBEDDED", tmp_path)
    one(ran.project.home, "store/raw/**/*.tgz").unlink()
    assert run_from_store(ran.options) is None
    assert StoredResults().bring(fetch, "housing", True).is_stand_in
    monkeypatch.setattr("requests.get", no_network)
    assert StoredResults().bring(fetch, "housing", False).is_stand_in
    monkeypatch.setattr("requests.get", too_slow)
    with pytest.raises(NotStored):  # it may answer the retries of a run
        StoredResults().bring(fetch, "housing", False)


def test_the_page_of_a_stand_in_says_why_it_is_one_now(ran, tmp_path, monkeypatch):
    def run():
        return StudySteps(
            find_study(str(ran.project.study)), ran.project.out, ran.options, PlainTasks()
        ).run()

    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path))
    monkeypatch.setattr("data.fetch.raw_files.EMBEDDED", tmp_path)
    one(ran.project.home, "store/raw/**/*.tgz").unlink()
    assert "no such file" in run().report.read_text()
    assert run_from_store(ran.options) is not None
    monkeypatch.delenv("DPCOST_DATA_MIRROR")
    assert run_from_store(ran.options) is None
    page = run().report.read_text()
    assert "DPCOST_DATA_MIRROR is not set" in page
    assert "no such file" not in page


def test_before_the_first_result_nothing_is_fetched_or_made_here(monkeypatch, tmp_path):
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path))
    for function in ("fetch", "parquet"):
        monkeypatch.setattr(stored, function, lambda *_, **__: pytest.fail("it is for the run to do"))
        with pytest.raises(NotStored):
            StoredResults().bring(getattr(stored, function), "housing", False)


def test_data_that_can_be_had_by_now_are_computed(ran, monkeypatch):
    found = [RawFile("housing", "", "", "", "", origin) for origin in ("stand-in", "official")]
    monkeypatch.setattr(stored, "fetch", lambda *_, **__: found.pop(0))
    with pytest.raises(NotStored):
        StoredResults().bring(stored.fetch, "housing", False)
    assert not found


def no_network(*_, **__):
    raise requests.ConnectionError


def too_slow(*_, **__):
    raise requests.ReadTimeout


@pytest.mark.parametrize(
    "module",
    ["dpalgos.comparators.adassp", "tasks.run.block", "tasks.report.build_page"],
)
def test_changed_code_is_run(ran, module, monkeypatch):
    known, edited = code_digest._sha256, code_digest.file_of(module)
    monkeypatch.setattr(code_digest, "_sha256", lambda path: "other" if path == edited else known(path))
    code_digest._code_digest.cache_clear()
    assert run_from_store(ran.options) is None


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 1},
        {"reps": 3},
        {"profile": "standard"},
        {"refresh_task": "fetch"},
        {"refresh_task": "collect"},
        {"refresh_task": "run_block", "refresh_cell": "ols:public:n=100"},
    ],
)
def test_what_is_asked_anew_is_computed(ran, options):
    assert run_from_store(ran.options.model_copy(update=options)) is None


def test_another_folder_gets_a_page_of_its_own(ran, tmp_path):
    assert run_from_store(ran.options.model_copy(update={"out": str(tmp_path)})) is None


def test_an_edited_study_is_computed(ran):
    text = ran.project.study.read_text()
    ran.project.study.write_text(text.replace("covariate_bound = 3.0", "covariate_bound = 3.5"))
    done = run_from_store(ran.options)
    ran.project.study.write_text(text)
    assert done is None


def test_a_server_of_ones_own_shows_every_run(ran, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    assert run_from_store(ran.options) is None


def test_the_scorecard_is_found_too(ran):
    folder, scorecard = ran.project.out, ran.options.model_copy(update={"study": "scorecard"})
    assert run_from_store(scorecard) is None
    stored.judged(folder, PlainTasks(), scorecard)
    assert run_from_store(scorecard).report == folder / "scorecard" / "report.html"
    (folder / "scorecard" / "report.html").write_text("")
    assert run_from_store(scorecard) is None


def test_no_step_begins_once_the_command_ends(ran):
    class StoppedMeanwhile(PlainTasks):
        def bring(self, function, *arguments, **options):
            STOPPED.set()
            return super().bring(function, *arguments, **options)

        def run(self, function, key, *arguments, again=False):
            pytest.fail(f"{function.__name__} began")

    spec = find_study(ran.options.study)
    try:
        with pytest.raises(KeyboardInterrupt):
            StudySteps(spec, ran.project.out, ran.options, StoppedMeanwhile()).run()
    finally:
        STOPPED.clear()
