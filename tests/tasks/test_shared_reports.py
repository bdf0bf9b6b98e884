import json

import pytest

from data.errors import StoreError
from data.store import shared as shared_store
from reports.pages.index import Card
from tasks.report.manifest import NOT_FOR_PUBLICATION
from tasks.report.write import share_report

FILES = {"report.html": b"<html>", "figures/main.svg": b"<svg/>", "results.parquet": b"rows"}


@pytest.fixture
def report(tmp_path, monkeypatch):
    """A function that writes a report of a study below ``reports/out``, and returns its folder."""
    monkeypatch.setattr("tasks.report.write.REPORTS", tmp_path / "out")

    def write(study="small", title="A small study", out="out", **files):
        card = Card(
            study, title, "0.1", "real", "2026-11-20T10:00:00+00:00", 1.0, "", f"{study}/report.html", ""
        )
        manifest = json.dumps({"title": title}).encode()
        content = {**FILES, **files, "card.json": card.to_json().encode(), "manifest.json": manifest}
        for name, each in content.items():
            path = tmp_path / out / study / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(each)
        return tmp_path / out / study

    return write


def below(stored, folder):
    return {name.removeprefix(f"{folder}/"): it for name, it in stored.items() if name.startswith(folder)}


def on_disk(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_report_and_an_index_over_all_lie_in_the_shared_store(in_shared_store, report):
    for folder in (report(), report("other", "Another <study>")):
        share_report(folder)
        assert below(in_shared_store(), f"reports/{folder.name}") == on_disk(folder)
    index = in_shared_store()["reports/index.html"].decode()
    assert 'href="small/report.html"' in index
    assert 'href="other/report.html"' in index
    assert "Another &lt;study&gt;" in index


@pytest.mark.parametrize("in_shared_store", ["file"], indirect=True)
def test_a_run_on_trial_and_one_for_another_folder_replace_no_report(in_shared_store, report):
    share_report(report())
    before = below(in_shared_store(), "reports/small") | {"index": in_shared_store()["reports/index.html"]}
    share_report(report(title="On trial", out="out/trial"))
    share_report(report(title="Elsewhere", out="mine"))
    stored = in_shared_store()
    assert below(stored, "reports/small") | {"index": stored["reports/index.html"]} == before
    for place, title in (("trial", b"On trial"), ("mine", b"Elsewhere")):
        assert title in stored[f"reports/{place}/index.html"]
        assert title in stored[f"reports/{place}/small/manifest.json"]
    share_report(report("other"))
    assert b"On trial" not in in_shared_store()["reports/index.html"]


def test_a_report_is_replaced_and_nothing_of_the_last_one_stays(in_shared_store, report):
    share_report(report(**{"figures/older.svg": b"<svg/>"}))
    folder = report(title="A larger study")
    (folder / "figures" / "older.svg").unlink()
    share_report(folder)
    assert below(in_shared_store(), "reports/small") == on_disk(folder)
    assert b"A larger study" in in_shared_store()["reports/index.html"]


@pytest.mark.parametrize("in_shared_store", ["file"], indirect=True)
def test_links_and_what_is_being_written_are_left_out(in_shared_store, report, tmp_path):
    secret = tmp_path / "secrets"
    secret.mkdir()
    (secret / "key").write_text("secret")
    folder = report()
    (folder / "link").symlink_to(secret / "key")
    (folder / "folder").symlink_to(secret)
    (folder / ".results.parquet.0123abcd.part").write_bytes(b"half")
    share_report(folder)
    assert set(below(in_shared_store(), "reports/small")) == {*FILES, "card.json", "manifest.json"}


@pytest.mark.parametrize("in_shared_store", ["memory"], indirect=True)
def test_a_report_that_is_not_for_publication_stays(in_shared_store, report):
    folder = report()
    (folder / "manifest.json").write_text(json.dumps({"warning": NOT_FOR_PUBLICATION}))
    share_report(folder)
    assert in_shared_store() == {}


@pytest.mark.parametrize("in_shared_store", ["file"], indirect=True)
def test_whoever_sees_a_manifest_sees_all_files_of_one_run(in_shared_store, report, monkeypatch):
    """Looks at the shared folder after each of its files was written or removed."""
    share_report(report(**{"figures/older.svg": b"<svg/>"}))
    first = below(in_shared_store(), "reports/small")
    folder = report(**{"report.html": b"<html>2", "results.parquet": b"rows 2"}, title="2")
    (folder / "figures" / "older.svg").unlink()
    second, seen = on_disk(folder), []

    def watched(function):
        def call(*arguments):
            function(*arguments)
            seen.append(below(in_shared_store(), "reports/small"))

        return call

    for name in ("share_as", "remove_shared"):
        monkeypatch.setattr(f"tasks.report.write.{name}", watched(getattr(shared_store, name)))
    share_report(folder)
    assert len(seen) > len(second)
    assert all(files in (first, second) for files in seen if "manifest.json" in files)
    assert all(files["report.html"] in (b"<html>", b"<html>2") for files in seen)
    assert seen[-1] == second


@pytest.mark.parametrize("in_shared_store", ["memory"], indirect=True)
def test_a_store_that_is_down_is_a_warning(in_shared_store, report, monkeypatch, caplog):
    def down(*_):
        raise StoreError("DPCOST_STORE=s3://bucket cannot be used: no answer")

    folder = report()
    monkeypatch.setattr("tasks.report.write.share_as", down)
    share_report(folder)
    (told,) = caplog.messages
    assert told == (
        f"the report of small lies in {folder} alone: DPCOST_STORE=s3://bucket cannot be used: no answer. "
        "To copy it to DPCOST_STORE, run: dpcost report small"
    )


def test_without_a_shared_store_nothing_is_copied(report, monkeypatch):
    monkeypatch.delenv("DPCOST_STORE", raising=False)
    monkeypatch.setattr("tasks.report.write._copy", None)
    share_report(report())


@pytest.mark.parametrize("in_shared_store", ["memory"], indirect=True)
def test_a_damaged_card_is_left_out_of_the_shared_index(in_shared_store, report, caplog):
    shared_store.write_shared("reports/broken/card.json", b"{")
    share_report(report())
    assert b"A small study" in in_shared_store()["reports/index.html"]
    assert "reports/broken/card.json is damaged" in caplog.text
