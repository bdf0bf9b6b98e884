"""What of a run goes to the server."""

import json
from unittest.mock import Mock

from flows import artifacts
from reports.results import to_parquet_bytes
from tests.tasks.blocks import results_table

SETTINGS = {"profile": "standard", "replicates": 30}


def left(folder, values):
    (folder / "results.parquet").write_bytes(to_parquet_bytes(results_table(values)))
    (folder / "manifest.json").write_text(json.dumps({**SETTINGS, "seed": 1}))


def test_of_a_table_of_ones_own_no_answer_goes_to_the_server(tmp_path, monkeypatch, capsys):
    sent = Mock()
    for name in ("emit_event", "create_table_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(artifacts, name, sent)
    monkeypatch.setattr(artifacts, "summary_markdown", lambda *_: "what came out")
    own = Mock(analyst_table=object())
    own.name = "mine"
    left(tmp_path, [1.0] * 29 + [1.1])
    last = artifacts.last_results(tmp_path, SETTINGS)
    left(tmp_path, [9.0] * 29 + [9.1])
    artifacts.show_drift(own, tmp_path, last)
    artifacts.attach_report(own, tmp_path / "report.html", "a headline")
    sent.assert_not_called()
    assert "note: cells of mine beyond the error bars of the last run: 1" in capsys.readouterr().err
