"""Sites of finished reports, and what a study's folder remembers of its runs."""

import json
from dataclasses import replace

import pytest

from reports.pages.index import Card
from tasks.faults import SpecError
from tasks.report.publish import MARK, publish
from tasks.report.write import entries_of, history_files, with_this_run

CARD = Card(
    name="housing", title="Houses", headline="Privacy costs.", data_source="real",
    when="2026-11-01T00:00:00+00:00",
    seconds=1.0, figure_svg="", href="housing/report.html", profile="standard", value=0.1, value_error=0.01,
)  # fmt: skip
MANIFEST = {
    "finished": "2026-11-01T00:00:00+00:00", "profile": "standard", "replicates": 30, "commit": "a" * 40,
    "data": [{"source_sha256": "d" * 64}], "results_sha256": "1",
}  # fmt: skip


def finished(folder, name="housing", *, page="<p>x</p>", **manifest):
    place = folder / name
    place.mkdir(parents=True)
    (place / "report.html").write_text(page)
    (place / "card.json").write_text(replace(CARD, name=name, href=f"{name}/report.html").to_json())
    (place / "manifest.json").write_text(json.dumps({**MANIFEST, **manifest}))
    (place / "results.parquet").write_bytes(b"rows")
    return place


def test_a_site_holds_what_may_be_published_and_nothing_of_ones_own(tmp_path):
    reports = tmp_path / "out"
    finished(reports)
    finished(reports, "mine", warning="NOT FOR PUBLICATION")
    index, studies, private = publish(tmp_path / "site", [reports])
    assert (studies, private) == (["housing"], ["mine"])
    there = {
        path.relative_to(tmp_path / "site").as_posix()
        for path in (tmp_path / "site").rglob("*")
        if path.is_file()
    }
    assert {"index.html", "housing/report.html", "housing/results.parquet", MARK} <= there
    assert not any("mine" in name for name in there)
    assert "mine" not in index.read_text()


def test_sites_of_several_people_stand_next_to_each_other(tmp_path):
    finished(tmp_path / "anna", commit="a" * 40)
    publish(tmp_path / "site of anna", [tmp_path / "anna"])
    finished(tmp_path / "ben", commit="b" * 40)
    _, studies, _ = publish(tmp_path / "both", [tmp_path / "ben", tmp_path / "site of anna"])
    assert len(studies) == 2
    assert "from ben" in (tmp_path / "both" / "index.html").read_text()
    again, studies, _ = publish(tmp_path / "both", [tmp_path / "ben"])
    assert studies == ["housing"]
    assert again.exists()


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path):
    finished(tmp_path / "out")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "letter.txt").write_text("dear")
    with pytest.raises(SpecError, match="other files"):
        publish(tmp_path / "site", [tmp_path / "out"])
    assert (tmp_path / "site" / "letter.txt").exists()


def test_a_link_to_nothing_stops_the_site(tmp_path):
    finished(tmp_path / "out", page='<a href="gone.html">x</a>')
    with pytest.raises(SpecError, match=r"housing/report\.html: gone\.html"):
        publish(tmp_path / "site", [tmp_path / "out"])
    assert not (tmp_path / "site").exists()


def test_nothing_to_publish_is_said(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(SpecError, match="no report"):
        publish(tmp_path / "site", [tmp_path / "out"])


def test_a_run_is_remembered_once(tmp_path):
    (tmp_path / "history.json").write_text("[{}]")  # damaged
    entries = with_this_run(tmp_path, CARD, MANIFEST)
    assert [entry.value for entry in entries] == [0.1]
    (tmp_path / "history.json").write_text(json.dumps([entry.to_plain() for entry in entries]))
    assert with_this_run(tmp_path, CARD, MANIFEST) == entries
    more = with_this_run(tmp_path, replace(CARD, value=0.2), {**MANIFEST, "results_sha256": "2"})
    assert [entry.value for entry in more] == [0.1, 0.2]
    assert with_this_run(tmp_path, replace(CARD, value=None), MANIFEST) == entries_of(tmp_path)


def test_a_history_without_values_has_no_page():
    assert history_files(None, []) == {}
