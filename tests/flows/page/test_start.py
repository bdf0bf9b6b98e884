"""The screen that opens a table: the demo, recent tables, and files that a person chooses."""

import pytest

from data.tables.demo import demo_study
from data.tables.recent import recent_studies
from flows.guard import opened_browser
from flows.page.serve import Desk
from flows.page.start import _copied
from tasks.errors import SpecError
from tasks.protocol.draft import opened_files
from tests.builders import refused
from tests.flows.page.driving import click, people, served, window
from tests.flows.small_project import until


def test_the_demo_table_is_declared_and_is_not_written_twice(tmp_path):
    files = opened_files(demo_study(tmp_path).name, tmp_path)
    assert files.faults() == []
    files.study.write_text(files.study.read_text() + "\n# mine\n")
    assert demo_study(tmp_path).read_text().endswith("# mine\n")


def test_each_table_has_a_page_of_its_own_and_is_remembered(tmp_path, home):
    desk, first = Desk(tmp_path), opened_files(demo_study(tmp_path).name, tmp_path)
    second = opened_files("people.csv", people(tmp_path, n=60))
    assert [desk.open(each) for each in (first, second, first)] == ["/1/", "/2/", "/1/"]
    assert recent_studies() == [first.study.resolve(), second.study.resolve()]
    first.study.unlink()
    assert recent_studies() == [second.study.resolve()]


@pytest.mark.parametrize("name", ["chosen.csv", "../../chosen.csv", "/tmp/chosen.csv"])
def test_a_chosen_file_is_copied_into_the_folder_and_replaces_nothing(tmp_path, name):
    upload, folder = {"name": name, "datapath": str(tmp_path / "0.csv")}, tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "0.csv").write_text("x\n1\n")
    copy = _copied(upload, folder)
    assert copy == folder / "chosen.csv"
    assert copy.stat().st_mode & 0o077 == 0
    assert _copied(upload, folder) == copy
    copy.write_text("x\n2\n")
    refused(lambda: _copied(upload, folder), SpecError, "chosen.csv")
    assert copy.read_text() == "x\n2\n"


def test_no_other_user_reads_the_token_from_a_command_line(tmp_path, home, monkeypatch):
    seen = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    with opened_browser("http://127.0.0.1:1/?token=secret"):
        (file,) = home.glob("open-*.html")
        assert seen == [file.as_uri()]
        assert "token=secret" in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()


@pytest.mark.browser
def test_the_demo_table_is_one_click_away(tmp_path):
    with (
        served(people(tmp_path), "") as address,
        window(address, tmp_path / "browser", shows="Which table?") as tab,
    ):
        click(tab, "Open the demo table")
        until(lambda: "Go on with step 2" in tab.text())
        click(tab, "Another table")
        until(lambda: "demo-students" in tab.text())
