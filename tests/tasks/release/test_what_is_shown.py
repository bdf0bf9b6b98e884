"""Fences: all that a release shows follows from what noise covers, and has no other keys than those listed.

The same question is asked of two tables of one shape that differ in every row, moved cells and rows of each
user included. The second run publishes what the first one drew. Whatever then differs was read from private
rows.
"""

import json
import logging
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpalgos.hardened_release
from data.ledger import open_ledger
from dpalgos.central.preconditioned.plan import WHITE_MOMENTS
from flows.cli.release import text_of_release
from reports.pages.coefficient_table import FORMATS
from reports.pages.release_page import render_release
from tasks.release import release as releasing
from tasks.release.record import record_of
from tasks.report.coefficients import table_of
from tests.builders import BOUNDS, CATEGORIES
from tests.dpalgos.silence import ScriptedReleases
from tests.tasks.analyst_tables import edited, release, study_of

KNOWN = tomllib.loads(Path(__file__).with_name("shown.toml").read_text(encoding="utf-8"))
TEXTS = sorted(set(FORMATS) - {"docx"})  # whose archive holds the time
# What follows from the time and from the rows by a secret key.
CHANGING = ("charge", "charged", "head", "publication_date")


def people(n=1500, other=False):
    """Two tables of one shape: of the second, more cells are missing, moved or of one level."""
    rng = np.random.default_rng(4 if other else 3)
    table = pd.DataFrame({"age": rng.uniform(20, 60 if other else 100, n)})
    table["region"] = rng.choice(CATEGORIES["region"], n, p=[0.8, 0.1, 0.1] if other else [0.2, 0.4, 0.4])
    table["smoker"] = np.where(rng.random(n) < (0.9 if other else 0.5), "yes", "no")
    table["cost"] = 1000 + (-20 if other else 30) * table["age"] + rng.normal(0, 300, n)
    table.loc[: 400 if other else 100, "age"] = 1e6  # beyond the bounds
    table.loc[: 30 if other else 10, "cost"] = 9e9
    table.loc[500 : 900 if other else 600, "age"] = np.nan
    return table


study = study_of(people, bounds=BOUNDS, categories=CATEGORIES)


def visits(n=1500, other=False):
    table = people(n, other)[["age"]].clip(0, 120).fillna(50.0)
    person = np.minimum(np.arange(n), 299) if other else np.arange(n) % 300  # as many people, others' rows
    return table.assign(person=[f"person {each}" for each in person])


class Scripted(ScriptedReleases, dpalgos.hardened_release.SecureSpend):
    pass


def masked(value):
    if isinstance(value, dict):
        return {name: "…" if name in CHANGING else masked(each) for name, each in value.items()}
    return [masked(each) for each in value] if isinstance(value, list) else value


def released(folder, script, monkeypatch, *asked, **options):
    """Return a release, and what its run published."""
    published, draw = [], dpalgos.hardened_release.draw_release

    def drawn_by_script(plan, sample):
        with monkeypatch.context() as patched:
            patched.setattr(dpalgos.hardened_release, "SecureSpend", Scripted)
            patched.setattr(Scripted, "script", script)
            patched.setattr(Scripted, "published", published)
            return draw(plan, sample)

    ledger = open_ledger(folder)
    ledger.open_dataset("mine", 1000.0, 1e-2)
    with monkeypatch.context() as patched:
        patched.setattr(releasing, "draw_release", drawn_by_script)
        config = folder / "mine-release.toml"
        found = release(ledger, asked[0], folder / "table.csv", config, epsilon=8.0, **options)
    return found, published


def everything_shown(folder, table, question, script, monkeypatch, caplog, delta):
    folder.mkdir()
    study(folder, table, **question["study"])
    for name, edits in question["edits"].items():
        for old, new in edits:
            edited(folder / name, old, new)
    (folder / "released.json").write_text(json.dumps(KNOWN["released"]))
    options = question["options"] | {"delta": delta}
    caplog.clear()
    with caplog.at_level(logging.INFO):
        found, published = released(folder, script, monkeypatch, question["estimator"], **options)
    record = masked(record_of(found))
    return {
        "answer": masked(json.loads(json.dumps(found.answer))),
        "record": record,
        "terminal": text_of_release(record),
        "page": render_release(record).decode(),
        "tables": {form: table_of([record], Path(f"table.{form}")) for form in TEXTS},
        "said": [each.getMessage().replace(str(folder), "") for each in caplog.records],
    }, published


@pytest.mark.parametrize("delta", [1e-7, 5e-3], ids=["small delta", "delta to warn of"])
@pytest.mark.parametrize("question", KNOWN["questions"])
def test_what_a_release_shows_is_made_of_what_was_drawn(tmp_path, question, delta, monkeypatch, caplog):
    asked = KNOWN["questions"][question]
    without_gaps = lambda **options: people(**options).fillna({"age": 50.0})  # noqa: E731
    table = {"users": visits, "mean": without_gaps}.get(question, people)
    given = monkeypatch, caplog, delta
    one, drawn = everything_shown(tmp_path / "one", table(), asked, [], *given)
    other, again = everything_shown(tmp_path / "other", table(other=True), asked, drawn, *given)
    assert len(drawn) == len(again) > 0
    for place in one:
        assert one[place] == other[place], place
    assert set(one["answer"]) <= set(KNOWN["stored"]["answer"])
    assert set(one["record"]) == {"record_version", "deployment", "release"}
    assert set(one["record"]["release"]) == set(KNOWN["record"]["release"])
    assert set(one["record"]["deployment"]) == set(KNOWN["deployment"])
    for of in ("release", "deployment"):
        for part, keys in KNOWN[of].items():
            found = one["record"][of][part]
            assert found or of == "release", part
            for each in found if isinstance(found, list) else [found] if found else []:
                assert set(each) == set(keys), part


def test_the_record_holds_the_sensitivities_that_were_drawn(tmp_path, monkeypatch):
    """Those of the plan are at a sensitivity of 1."""
    study(tmp_path, people(), response="cost")
    for what, rule in (("outside", "clip"), ("missing", "drop")):
        edited(tmp_path / "mine.toml", f'{what} = "refuse"', f'{what} = "{rule}"')
    drawn, draw = [], releasing.draw_release
    monkeypatch.setattr(releasing, "draw_release", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    ledger = open_ledger(tmp_path)
    ledger.open_dataset("mine", 1000.0, 1e-2)
    asked = ledger, "preconditioned_regression", tmp_path / "table.csv", tmp_path / "mine-release.toml"
    for _ in range(2):  # drawn, and replayed from the ledger
        found = release(*asked, epsilon=8.0, delta=1e-7)
        recorded = {(each["label"], each["sensitivity"]) for each in record_of(found)["release"]["events"]}
        assert recorded == {(each.label, float(each.sensitivity)) for each in drawn[0].events}
    assert len(drawn) == 1
    planned = {(each["label"], each["sensitivity"]) for each in found.facts["events"]}
    labels = {label for label, _ in recorded}
    assert {label for label, _ in planned} - labels <= {WHITE_MOMENTS}  # in place of a step, or not
    assert planned != recorded
    assert found.facts["rho"] == found.charge.cost.rho
