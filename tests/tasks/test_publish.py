"""Copies of finished reports in folders and object stores."""

import json
from dataclasses import replace

import pytest

from reports.pages.index import Card
from tasks.errors import SpecError
from tasks.report.publish import publish

WHEN = "2026-11-01T00:00:00+00:00"
CARD = Card(
    name="housing", title="Houses", headline="Privacy costs.", data_source="real", when=WHEN,
    seconds=1.0, href="housing/report.html", profile="standard", value=0.1, value_error=0.01,
)  # fmt: skip
MANIFEST = {"finished": WHEN, "profile": "standard", "replicates": 30}


def finished(folder, name="housing", **manifest):
    place = folder / name
    (place / "figures").mkdir(parents=True)
    (place / "report.html").write_text("<p>x</p>")
    (place / "card.json").write_text(replace(CARD, name=name, href=f"{name}/report.html").to_json())
    (place / "manifest.json").write_text(json.dumps({**MANIFEST, **manifest}))
    (place / "results.parquet").write_bytes(b"rows")
    (place / "figures" / "main.svg").write_text("<svg/>")
    return place


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_may_be_published_is_copied_and_nothing_of_ones_own(tmp_path):
    reports, site = tmp_path / "out", tmp_path / "site"
    place = finished(reports)
    copied = {"index.html"} | {f"housing/{name}" for name in files_below(place)}
    finished(reports, "mine", warning="NOT FOR PUBLICATION")
    own = finished(reports, "own")  # of which its card alone says so
    card = replace(CARD, name="own", href="own/report.html", warning="NOT FOR PUBLICATION")
    (own / "card.json").write_text(card.to_json())
    (tmp_path / "secret").write_text("root:x:0:0")
    (place / "summary.csv").symlink_to(tmp_path / "secret")
    (place / ".report.html.part").write_text("half")
    index, studies, private = publish(str(site), reports)
    assert (studies, sorted(private), index) == (["housing"], ["mine", "own"], str(site / "index.html"))
    assert files_below(site) == copied
    assert "mine" not in (site / "index.html").read_text()
    (site / "CNAME").write_text("example.org")
    (place / "report.html").write_text("<p>new</p>")
    publish(str(site), reports)
    assert (site / "housing" / "report.html").read_text() == "<p>new</p>"
    assert (site / "CNAME").exists()


def test_reports_are_copied_to_an_object_store(tmp_path, in_shared_store, monkeypatch):
    import os

    finished(tmp_path / "out")
    publish(f"{os.environ['DPCOST_STORE']}/site", tmp_path / "out")
    assert in_shared_store()["site/housing/report.html"] == b"<p>x</p>"
    assert b"Houses" in in_shared_store()["site/index.html"]


def test_a_folder_of_somebody_elses_is_left_alone_unless_forced(tmp_path):
    finished(tmp_path / "out")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "letter.txt").write_text("dear")
    with pytest.raises(SpecError, match="site"):
        publish(str(tmp_path / "site"), tmp_path / "out")
    assert files_below(tmp_path / "site") == {"letter.txt"}
    publish(str(tmp_path / "site"), tmp_path / "out", force=True)
    assert (tmp_path / "site" / "letter.txt").exists()
