import json
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from flows import artifacts
from flows.artifacts import attach_report, last_results, show_drift, spent_budget, summary_markdown
from flows.studies.find_study import find_study
from reports.results import to_parquet_bytes
from tasks.report.manifest import budget_split
from tests.tasks.blocks import results_table

HOUSING = find_study("housing")


@pytest.fixture
def shown(monkeypatch):
    """Return what was sent to the server, in order."""
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


def test_a_server_that_is_away_stops_no_run(tmp_path, monkeypatch, capsys):
    def away(**_):
        raise ConnectionError("42.5")

    monkeypatch.setattr(artifacts, "create_markdown_artifact", away)
    (tmp_path / "report.md").write_text("| a |\n")
    attach_report(HOUSING, tmp_path / "report.html", "")
    said = capsys.readouterr().err
    assert said.count("note: the server did not take an artifact of this run (ConnectionError)") == 1
    assert "42.5" not in said


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


def test_the_budget_names_every_private_cell_at_the_headline_and_what_it_was_spent_on():
    blocks = HOUSING.blocks("smoke", replicates=1, seed=0)
    cells = HOUSING.headline_cells(blocks)
    results = pd.DataFrame(
        [{"cell": cell.key, "certified_epsilon": 0.4, "estimator_epsilon": np.nan} for cell in cells]
    )
    split = budget_split(HOUSING)
    rows = spent_budget(split, results, cells)
    assert [row["estimator"] for row in rows] == [cell.estimator for cell in cells]
    assert {row["ε certified"] for row in rows} == {"0.4"}
    assert {row["ε of the estimator alone"] for row in rows} == {"no answer"}
    assert all("%" in row["spent on"] for row in rows), rows
    assert spent_budget(split, results[:0], cells) == []


PAGE = """# A study

Words.

![A chart](figures/main.png)

| Estimator | error |
| :-- | --: |
| OLS | 0.1 |

| another | table |
"""


def test_the_server_shows_the_headline_the_first_table_and_where_the_whole_report_is(tmp_path):
    (tmp_path / "report.md").write_text(PAGE)
    report = tmp_path / "report.html"
    text = summary_markdown(report, "It costs little.", "http://127.0.0.1:4200/reports/housing")
    whole = "[The whole report](http://127.0.0.1:4200/reports/housing/report.html)"
    table = "| Estimator | error |\n| :-- | --: |\n| OLS | 0.1 |"
    assert text == f"It costs little.\n\n{whole}\n\n{table}\n"
    assert f"`{report}`" in summary_markdown(report, "It costs little.")
