"""Measured figures of the documentation: when they were measured, and their commands."""

import importlib
import re
import sys

import dpalgos
from data.store.folders import PROJECT_ROOT

sys.path.insert(0, str(PROJECT_ROOT / "docs"))
stored = importlib.import_module("generate.measured")
reproduce = importlib.import_module("generate.reproduce")


def test_what_is_shown_was_measured_by_code_and_commands_that_are_there():
    rows = stored.evidence()
    assert set(rows.estimator) <= {entry.name for entry in dpalgos.catalog()}
    assert set(rows.profile) <= {"standard", "paper"}
    for figure in stored.figures():
        assert set(figure.estimators) <= stored.changes().keys()
        assert ("{out}" in figure.command) == bool(figure.file)
        assert not figure.file or (stored.DOCS / figure.file).exists()


def test_what_was_measured_before_an_estimate_changed_or_by_an_older_version_is_stale(monkeypatch):
    row = stored.evidence().iloc[[0]].assign(version="3.0.0", started="2026-11-20", estimator="dp_mean")
    last = stored.Version("3.0.0")
    monkeypatch.setattr(stored, "last_release", lambda: last)
    monkeypatch.setattr(stored, "figures", list)
    cases = [
        ({}, "dp_mean", "2026-11-19", ""),
        ({"version": "3.0.0.dev0"}, "dp_mean", "2026-11-19", ""),  # measured for that release
        ({}, "dp_mean", "2026-11-21", "before the estimates of dp_mean changed"),
        ({}, "another", "2026-11-19", "before the estimates of dp_mean changed"),
        ({"version": "2.1.0"}, "dp_mean", "2026-11-19", "by version 2.1.0, which is older than 3.0.0"),
        ({"version": ""}, "dp_mean", "2026-11-19", "by an unknown version"),
    ]
    for changes, name, at, why in cases:
        monkeypatch.setattr(stored, "evidence", lambda changes=changes: row.assign(**changes))
        monkeypatch.setattr(stored, "changes", lambda name=name, at=at: {name: at})
        assert [reason for _, reason, _ in stored.stale()] == ([why] if why else [])


def test_the_last_release_is_that_of_the_changelog():
    assert stored.last_release() <= stored.Version(dpalgos.__version__)


def test_the_version_to_cite_is_that_of_the_library():
    text = (PROJECT_ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [dpalgos.__version__]


def test_a_figure_is_measured_by_its_command_and_differences_are_shown(tmp_path, monkeypatch, capfd):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "shown.csv").write_text("x\n1\n2\n")
    (tmp_path / "measure.py").write_text("import sys; open(sys.argv[1], 'w').write('x\\n1\\n')")
    lines = {"place": "s", "command": f"python {tmp_path / 'measure.py'} {{out}}", "file": "shown.csv"}
    text = "".join(f'{key} = "{value}"\n' for key, value in {**lines, "version": "", "measured": ""}.items())
    text = f'[mine]\nminutes = 1\nestimators = ["dp_mean"]\n{text}'
    (docs / "measured.toml").write_text(text)
    (docs / "evidence.csv").write_text(",".join(stored.COLUMNS) + "\n")
    places = {"DOCS": docs, "EVIDENCE": docs / "evidence.csv", "MEASURED": docs / "measured.toml"}
    for name, place in places.items():
        monkeypatch.setattr(stored, name, place)
    monkeypatch.setattr("generate.reproduce.REPORTS", tmp_path / "reports")
    monkeypatch.setattr("generate.reproduce.commit", lambda: "0" * 40)
    assert stored.figures()[0].fault == "by an unknown version"
    reproduce.main(["mine"])
    assert "- 2" in capfd.readouterr().out
    assert (docs / "shown.csv").read_text() == "x\n1\n2\n"
    reproduce.main(["mine", "--update"])
    assert (docs / "shown.csv").read_text() == "x\n1\n"
    assert stored.figures()[0].version == dpalgos.__version__
    assert not stored.figures()[0].fault
    reproduce.main(["mine"])
    assert "mine: the same" in capfd.readouterr().out
