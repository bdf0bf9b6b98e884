"""No setting of Prefect from outside makes a budget be spent twice, or sends results elsewhere."""

import logging
import os
import signal
import subprocess
import sys

import pytest

from flows import ServerError, serve
from flows import local_server as settings
from tests.builders import PROJECT, refused

TASKS = """
import flows.protocol, flows.study, tasks.steps
from prefect import Flow, Task
for module in (flows.protocol, flows.study, tasks.steps):
    for name, each in sorted(vars(module).items()):
        if isinstance(each, (Flow, Task)) and each.fn.__module__ == module.__name__:
            print(name, each.retries, each.persist_result, each.result_storage is not None)
"""
GUARDED = f"""
from flows.local_server import drop_other_variables, refuse_other_files
drop_other_variables()
refuse_other_files()
{TASKS}"""
OTHERS = {
    "PREFECT_TASKS_DEFAULT_RETRIES": "3",
    "PREFECT_FLOWS_DEFAULT_RETRIES": "2",
    "PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK": "s3-bucket/none",
    "PREFECT_TASKS_REFRESH_CACHE": "true",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    "PREFECT_TASKS_DISABLE_CACHING": "true",
}
ALLOWED = {
    "PREFECT_API_URL": "http://127.0.0.1:1/api",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_API_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:///x.db",
}
SPENDING = {"release_question", "protocol"}
FLOWS = {"study", "studies", "rerun", "report", "scorecard", "ingest", "protocol"}


def test_other_variables_are_dropped_with_a_note(monkeypatch, capsys):
    for name, value in (OTHERS | ALLOWED).items():
        monkeypatch.setenv(name, value)
    settings.drop_other_variables()
    assert not OTHERS.keys() & os.environ.keys()
    assert {name: os.environ[name] for name in ALLOWED} == ALLOWED
    noted = capsys.readouterr().err
    assert all(f"{name} is ignored" in noted for name in OTHERS)
    assert not any(name in noted for name in ALLOWED)


@pytest.fixture
def standing(web, home, monkeypatch):
    """The address of a server that answers, named in a copy of the environment."""
    for path in ("health", "ready", "admin/version"):
        web.serve(f"/api/{path}", b"yes")
    environment = {name: each for name, each in os.environ.items() if not name.startswith("PREFECT_")}
    address = f"{web.address}/api"
    monkeypatch.setattr(os, "environ", environment | {"PREFECT_API_URL": address})
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(os, "umask", lambda _: None)
    return address


def connected():
    """In place of the check of files, the last step before this process is connected."""
    raise ServerError("connected")


def test_serving_elsewhere_keeps_its_own_settings_and_notes_none(standing, monkeypatch, capsys):
    monkeypatch.setattr(settings, "refuse_other_files", connected)
    os.environ["PREFECT_TASKS_DEFAULT_RETRIES"] = "3"
    assert serve.main([]) == 1
    noted = capsys.readouterr().err
    assert noted.count("is ignored") == noted.count("PREFECT_TASKS_DEFAULT_RETRIES is ignored") == 1
    assert noted.endswith("connected\n")
    assert os.environ["PREFECT_RUNNER_POLL_FREQUENCY"] == "2"


def test_a_stated_server_is_waited_for_and_none_is_started_in_its_place(standing, web, monkeypatch, capsys):
    monkeypatch.setattr(settings, "refuse_other_files", connected)
    monkeypatch.setattr(serve, "_own_server", None)
    web.serve("/api/health", 503, 503, b"yes")
    assert serve.main([]) == 1
    assert capsys.readouterr().err.endswith("connected\n")
    monkeypatch.setattr(settings, "ANSWERS_WITHIN", 0.0)
    web.serve("/api/health", 503)
    assert serve.main([]) == 1
    said = capsys.readouterr().err
    assert f"\nno Prefect server responds at PREFECT_API_URL={standing}" in said


def test_a_command_waits_for_a_stated_server_and_starts_none_in_its_place(
    standing, web, home, monkeypatch, capsys
):
    """A team's server that was slow for seconds: the run would be on no page of the team."""
    monkeypatch.setattr(settings, "running_server", None)
    web.serve("/api/health", 503, 503, b"yes", b"yes")
    with settings.prefect_server(home) as address:
        assert address == standing
    assert capsys.readouterr().err.count("waiting") == 1
    monkeypatch.setattr(settings, "ANSWERS_WITHIN", 0.0)
    web.serve("/api/health", 503)
    refused(settings.prefect_server(home).__enter__, ServerError, f"PREFECT_API_URL={standing}", "unset")


def test_a_pool_needs_a_stated_server(standing, capsys):
    del os.environ["PREFECT_API_URL"]
    assert serve.main(["--pool", "local"]) == 1
    assert capsys.readouterr().err.startswith("--pool local needs a server in PREFECT_API_URL")


def test_a_cause_has_one_line_and_not_one_per_tick(caplog):
    log = logging.getLogger("prefect.test_of_repeats")
    log.addFilter(serve.NoRepeats())
    with caplog.at_level(logging.INFO):
        for waiting in (1, 1, 2, 47):
            log.info("%d scheduled runs skipped (at capacity)", waiting)
        log.info("Completed submission of flow run")
        log.info("%d scheduled runs skipped (at capacity)", 1)
    assert [each.getMessage()[:2] for each in caplog.records] == ["1 ", "Co", "1 "]


def call(folder, code, **environment):
    """Run code in a folder, with no other settings of Prefect."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    places = {
        "PYTHONPATH": str(PROJECT),
        "DPCOST_HOME": str(folder / "h"),
        "PREFECT_HOME": str(folder / "p"),
    }
    words = [sys.executable, "-c", code]
    every = plain | places | environment
    return subprocess.run(words, cwd=folder, env=every, capture_output=True, text=True, check=False)


def settings_of(answer):
    assert answer.returncode == 0, answer.stderr
    return {line.split()[0]: line.split()[1:] for line in answer.stdout.splitlines()}


def test_what_spends_never_retries_whatever_the_defaults_are(tmp_path):
    found = settings_of(call(tmp_path, TASKS, **OTHERS))
    assert {name: found[name][:2] for name in SPENDING} == {name: ["0", "False"] for name in SPENDING}
    assert {name: found[name][2] for name in FLOWS} == dict.fromkeys(FLOWS, "True")
    assert settings_of(call(tmp_path, GUARDED, **OTHERS)) == settings_of(call(tmp_path, GUARDED))


FILES = {
    "prefect.toml": "[tasks]\ndefault_retries = 3\n",
    "pyproject.toml": "[tool.prefect.results]\ndefault_storage_block = 's3-bucket/none'\n",
    ".env": "PREFECT_TASKS_DEFAULT_RETRIES=3\n",
    "p/profiles.toml": "active='a'\n[profiles.a]\nPREFECT_TASKS_DEFAULT_RETRIES=3\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_a_file_that_sets_more_is_refused(file, tmp_path):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(FILES[file])
    answer = call(tmp_path, GUARDED)
    assert answer.returncode != 0
    assert "take it out" in answer.stderr
