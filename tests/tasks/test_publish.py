"""Sites of finished reports, and what a study's folder remembers of its runs."""

import ast
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from reports.pages.index import Card
from tasks.errors import SpecError
from tasks.report.publish import MARK, finished_reports, publish
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


@pytest.mark.parametrize("name", ["CNAME", "housing/mine.html", "housing/report.html"])
def test_a_file_that_was_put_into_a_site_stays_unless_it_is_forced_out(tmp_path, name):
    finished(tmp_path / "out")
    site = tmp_path / "site"
    publish(site, [tmp_path / "out"])
    publish(site, [tmp_path / "out"])
    (site / name).write_text("mine")
    with pytest.raises(SpecError, match=name):
        publish(site, [tmp_path / "out"])
    assert (site / name).read_text() == "mine"
    publish(site, [tmp_path / "out"], force=True)
    assert name == "housing/report.html" or not (site / name).exists()


@pytest.mark.parametrize("spelling", ["out", "out/../out", ".", "link"])
def test_a_folder_that_is_read_is_no_site(tmp_path, monkeypatch, spelling):
    finished(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    for force in (False, True):
        with pytest.raises(SpecError):
            publish(Path(spelling), [tmp_path / "out"], force=force)
    assert (tmp_path / "out" / "housing" / "report.html").exists()


def planted(place, kind):
    """Let a report reach out of its folder, or hold what never ends."""
    card, secret = place / "card.json", place.parents[1] / "secret"
    secret.write_text("root:x:0:0")
    fields = json.loads(card.read_text())
    key, _, value = kind.partition(" ")
    if key in ("name", "href", "when"):
        card.write_text(json.dumps({**fields, key: ast.literal_eval(value)}))
    if kind == "link":
        (place / "summary.csv").symlink_to(secret)
    elif kind == "linked figures":
        (place.parents[1] / "pictures").mkdir()
        (place.parents[1] / "pictures" / "a.svg").write_text("root:x:0:0")
        (place / "figures").symlink_to(place.parents[1] / "pictures")
    elif kind == "linked folder":
        place.rename(place.parents[1] / "elsewhere")
        place.symlink_to(place.parents[1] / "elsewhere")
    elif kind == "linked card":
        card.rename(place / "other")
        card.symlink_to(place / "other")
    elif kind == "device":
        (place / "summary.csv").symlink_to("/dev/zero")
    elif kind == "fifo":
        (place / "results.parquet").unlink()
        os.mkfifo(place / "results.parquet")
    elif kind == "large":
        with open(place / "results.parquet", "wb") as file:
            file.truncate(5 * 10**9)
    elif kind == "large card":
        with open(card, "wb") as file:
            file.truncate(5 * 10**9)
    elif kind == "odd name":
        (place / "figures").mkdir()
        (place / "figures" / "a b.svg").write_text("x")


REACHING_OUT = [
    *(f"name {name!r}" for name in ("/tmp/x", "..", "../../x", "a/b", "", "A", "x\n")),
    *(f"href {href!r}" for href in ("/x/report.html", "../report.html")),
    *("link", "linked figures", "linked folder", "linked card", "device", "fifo", "large", "large card"),
    "odd name",
    "when 'yesterday'",
    "when '9999-99-99T00:00:00'",
]


@pytest.mark.parametrize("kind", REACHING_OUT)
def test_a_strangers_folder_is_refused_whole_where_it_reaches_out_of_itself(tmp_path, kind):
    finished(tmp_path / "mine")
    publish(tmp_path / "site", [tmp_path / "mine"])
    before = sorted((tmp_path / "site").rglob("*"))
    planted(finished(tmp_path / "theirs", "theirs"), kind)
    with pytest.raises(SpecError) as refused:
        publish(tmp_path / "site", [tmp_path / "mine", tmp_path / "theirs"])
    assert "theirs" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted((tmp_path / "site").rglob("*")) == before
    assert not list(tmp_path.glob(".*"))


CARD_FAULTS = ["", "[]", "3", "null", "{}", "{" * 10**5, "\udcff", '{"name": 3}', "[" * 10**5, "{'a': 1}"]


@pytest.mark.parametrize("file", ["card.json", "manifest.json"])
@pytest.mark.parametrize(
    "content", [*CARD_FAULTS, '{"commit": ["x"], "name": "x"}', '{"warning": 0, "title": 1}']
)
def test_a_damaged_card_or_manifest_is_one_sentence_that_names_it(tmp_path, file, content):
    if (file, content) == ("manifest.json", "{}") or (file, content) == ("manifest.json", '{"name": 3}'):
        return  # nothing that a site needs is wrong
    place = finished(tmp_path / "theirs", "theirs")
    (place / file).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(SpecError) as refused:
        publish(tmp_path / "site", [tmp_path / "theirs"])
    assert file in str(refused.value)
    assert len(str(refused.value)) < 1000
    assert not (tmp_path / "site").exists()


def test_a_site_whose_exchange_fails_is_the_old_one(tmp_path, monkeypatch):
    finished(tmp_path / "out")
    publish(tmp_path / "site", [tmp_path / "out"])
    before = (tmp_path / "site" / MARK).read_bytes()

    def killed(one, other):
        assert (one / "index.html").exists()
        assert (other / MARK).read_bytes() == before
        raise KeyboardInterrupt

    monkeypatch.setattr("tasks.report.publish.exchange", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path / "site", [tmp_path / "out"])
    assert (tmp_path / "site" / MARK).read_bytes() == before
    assert not list(tmp_path.glob(".*"))


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


def test_a_folder_that_is_not_there_yet_has_no_reports(tmp_path):
    assert list(finished_reports(tmp_path / "out", [])) == []
