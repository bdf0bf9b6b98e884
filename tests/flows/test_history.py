import json

from flows.history import recent_runs
from flows.lock import exclusive_run


def write_manifest(folder, started, **facts):
    folder.mkdir(parents=True)
    about = {"started": started, "finished": started, "profile": "smoke"} | facts
    (folder / "manifest.json").write_text(json.dumps(about))


def test_reports_are_listed_with_the_newest_first_and_one_of_an_own_table_is_marked(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    write_manifest(tmp_path / "out" / "housing", "2026-11-20T10:00:00+00:00")
    write_manifest(tmp_path / "out" / "costs", "2026-11-21T10:00:00+00:00", warning="not for publication")
    newest, oldest = recent_runs(tmp_path / "home", tmp_path / "out")
    assert (newest["study"], newest["publication"]) == ("costs", "not for publication")
    assert (oldest["study"], oldest["status"], oldest["profile"]) == ("housing", "completed", "smoke")
    assert len(recent_runs(tmp_path / "home", tmp_path / "out", limit=1)) == 1


def test_a_run_under_way_is_named_by_its_process(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with exclusive_run(tmp_path / "home"):
        (run,) = recent_runs(tmp_path / "home", tmp_path / "out")
    assert run["status"] == "running"
    assert recent_runs(tmp_path / "home", tmp_path / "out") == []
