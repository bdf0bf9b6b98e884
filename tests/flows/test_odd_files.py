"""Files that a command must not read to their end, and files that it must not replace."""

import itertools
import os
import socket
import stat

import pytest
from small_project import sentence

from data.errors import StoreError
from tasks.report.write import write_index
from tests.tasks.analyst_tables import completed, edited, init_study

ROWS = "a,b,c,cost\n" + "1,-1,1,0.5\n" * 20
NO_FILES = ("pipe", "socket", "device", "folder")
# Commands that read a file: {odd} is no regular file.
READING = {
    "a study file": "run {odd}.toml",
    "a study's table": "run own.toml",
    "a release's data": "release dp_mean --data {odd}.csv --config release.toml --epsilon 1 --delta 1e-6",
    "a release's config": "release dp_mean --data rows.csv --config {odd} --epsilon 1 --delta 1e-6",
    "init": "init mine --data {odd}.csv",
    "a backup": "ledger restore {odd}",
    "results": "compare {odd} {odd}",
    "a manifest": "report housing --out reports",
}
CONFIG = '[dataset]\nname = "people"\n[columns]\nx = ["a", "b", "c"]\n[bounds]\nvalue_bound = 1.0\n'


def make(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.chdir(path.parent)  # the name of a socket is short
        socket.socket(socket.AF_UNIX).bind(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.with_name("rows.csv"))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "release.toml").write_text(CONFIG)
    return tmp_path


def analyst_study(folder):
    init_study("own", folder / "rows.csv", folder=folder)
    return completed(folder / "own.toml", (-1, 1))


@pytest.mark.parametrize(
    ("case", "kind"), [*zip(READING, itertools.cycle(NO_FILES)), *(("init", kind) for kind in NO_FILES)]
)
def test_what_is_no_regular_file_is_not_read(command_line, folder, case, kind):
    own = analyst_study(folder)
    for name in ("odd", "odd.toml", "odd.csv", "reports/housing/manifest.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        make(kind, folder / name)
    os.chdir(folder)
    edited(own, f"{folder}/rows.csv", f"{folder}/odd.csv")
    assert "internal error" not in sentence(command_line(*READING[case].format(odd="odd").split()))


@pytest.mark.parametrize("kind", ["socket", "link", "folder", "pipe"])
def test_only_a_regular_file_is_replaced(command_line, folder, kind):
    command_line("ledger", "open", "people", "--epsilon", "1", "--delta", "1e-6")
    out = make(kind, folder / "out")
    before = os.lstat(out)
    sentence(command_line("ledger", "backup", str(out)))
    assert (stat.S_IFMT(os.lstat(out).st_mode), os.lstat(out).st_ino) == (
        stat.S_IFMT(before.st_mode),
        before.st_ino,
    )
    assert (folder / "rows.csv").read_text() == ROWS


@pytest.mark.parametrize("out", ["rows.csv", "release.toml", "same.csv", "notes.txt", ".", ""])
def test_no_input_and_no_file_of_another_kind_is_replaced(command_line, folder, out):
    command_line("ledger", "open", "people", "--epsilon", "1", "--delta", "1e-6")
    os.link(folder / "rows.csv", folder / "same.csv")
    (folder / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.glob("*.*")}
    assert "internal error" not in sentence(command_line("ledger", "backup", out))
    assert {path.name: path.read_bytes() for path in folder.glob("*.*")} == before


def test_a_page_takes_the_place_of_no_link(tmp_path):
    """Every file of a report is written in the same way."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "index.html").symlink_to("mine")
    with pytest.raises(StoreError, match=r"index\.html"):
        write_index(tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("name", ["manifest.json", "card.json"])
def test_deep_json_beside_a_report_is_no_internal_error(command_line, folder, name):
    (folder / "out" / "housing").mkdir(parents=True)
    (folder / "out" / "housing" / name).write_text("[" * 100_000)
    assert command_line("report", "housing", "--out", "out")[0] == 2


def test_a_null_character_in_a_path_is_told(command_line, folder):
    edited(analyst_study(folder), f"{folder}/rows.csv", "\\u0000.csv")
    assert "data.path" in sentence(command_line("run", "own.toml"))


def test_a_table_that_no_study_file_can_declare_is_refused(command_line, folder):
    names = ",".join(f"c{i}" for i in range(1001))
    (folder / "wide.csv").write_text(f"{names}\n")
    assert "1,001 columns" in sentence(command_line("init", "mine", "--data", "wide.csv"))
    assert not (folder / "mine.toml").exists()
