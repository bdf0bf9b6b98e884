"""Measured figures of the documentation: their code and their commands."""

import importlib
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


def test_a_figure_is_measured_by_its_command_and_differences_are_shown(tmp_path, monkeypatch, capfd):
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
    monkeypatch.setattr("generate.reproduce.REPORTS", tmp_path / "reports")
    monkeypatch.setattr("generate.reproduce.commit", lambda: "0" * 40)
    reproduce.main(["mine"])
    assert "- 2" in capfd.readouterr().out
    assert (docs / "shown.csv").read_text() == "x\n1\n2\n"
    reproduce.main(["mine", "--update"])
    assert (docs / "shown.csv").read_text() == "x\n1\n"
    assert not stored.figures()[0].stale
    reproduce.main(["mine"])
    assert "mine: the same" in capfd.readouterr().out
