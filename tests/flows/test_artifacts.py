import json
from unittest.mock import Mock

import pytest

from flows import artifacts
from flows.artifacts import last_results, show_drift
from flows.studies.find_study import find_study
from reports.results import to_parquet_bytes
from tests.tasks.blocks import results_table

HOUSING = find_study("housing")


@pytest.fixture
def shown(monkeypatch):
    told = []

    def create(name):
        def artifact(*arguments, **keywords):
            told.append((name, *arguments, keywords))
            return "00000000-0000-0000-0000-000000000000"

        return artifact

    monkeypatch.setattr(artifacts, "emit_event", lambda event, **keywords: told.append((event, keywords)))
    monkeypatch.setattr(artifacts, "create_table_artifact", create("create_table"))
    return told


SETTINGS = {"profile": "standard", "replicates": 30}


def left(folder, values, settings=SETTINGS):
    (folder / "results.parquet").write_bytes(to_parquet_bytes(results_table(values)))
    (folder / "manifest.json").write_text(json.dumps({**settings, "seed": 1}))


def test_of_a_table_of_ones_own_no_answer_goes_to_the_server(tmp_path, shown, monkeypatch, capsys):
    monkeypatch.setattr(artifacts, "create_markdown_artifact", lambda **told: shown.append(told))
    monkeypatch.setattr(artifacts, "summary_markdown", lambda *_: "what came out")
    own = Mock(analyst_table=object())
    own.name = "mine"
    left(tmp_path, [1.0] * 29 + [1.1])
    last = last_results(tmp_path, SETTINGS)
    left(tmp_path, [9.0] * 29 + [9.1])
    show_drift(own, tmp_path, last)
    artifacts.attach_report(own, tmp_path / "report.html", "a headline")
    assert shown == []
    assert "note: cells of mine beyond the error bars of the last run: 1" in capsys.readouterr().err
