import json
import sys

import pytest
from small_project import sentence


@pytest.fixture
def dpcost(command_line):
    return command_line


def test_a_study_file_that_is_wrong_is_refused_before_anything_starts(dpcost, tmp_path, home):
    (tmp_path / "mine.toml").write_text("title = 3")
    err = sentence(dpcost("run", tmp_path / "mine.toml"))
    assert [part for part in ("mine.toml", "title", "got 3", "question") if part not in err] == []
    assert not home.exists()


def test_two_studies_of_one_name_are_refused(dpcost, tmp_path):
    from flows.studies.find_study import STUDIES

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.toml").write_text((STUDIES / "housing.toml").read_text())
    err = sentence(dpcost("run", tmp_path / "a" / "mine.toml", tmp_path / "b" / "mine.toml"))
    assert "got 'mine' twice" in err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("housing", "must not be called 'housing', for its report would take the place"),
        ("scorecard", "and not 'scorecard', got 'scorecard'; rename"),
    ],
)
def test_a_study_file_does_not_take_the_place_of_a_known_report(dpcost, tmp_path, name, reason):
    from flows.studies.find_study import STUDIES, find_study

    path = tmp_path / f"{name}.toml"
    path.write_text((STUDIES / "housing.toml").read_text())
    assert reason in sentence(dpcost("run", path))
    assert find_study(str(STUDIES / "housing.toml")).name == "housing"


def test_a_damaged_result_is_found_and_is_status_1(dpcost, home):
    (home / "cache" / "blocks").mkdir(parents=True)
    name = f"block-{'0' * 32}.parquet"
    (home / "cache" / "blocks" / name).write_text("PAR1")
    status, out, _ = dpcost("cache", "verify", "--json")
    assert status == 1
    assert [row["name"] for row in json.loads(out)["damaged"]] == [name]
    assert dpcost("cache", "prune")[0] == 0
    assert dpcost("cache", "verify")[0] == 0


def test_ingest_again_takes_what_the_mirror_has_now(dpcost, home, tmp_path, monkeypatch):
    assert dpcost("ingest", "housing", "--offline")[0] == 0
    raw = home / "store" / "raw" / "housing" / "cal_housing.tgz"
    before = raw.stat().st_ino
    assert dpcost("ingest", "housing", "--offline", "--again")[0] == 0
    assert raw.stat().st_ino != before
    monkeypatch.delenv("DPCOST_DATA_MIRROR")
    status, out, _ = dpcost("ingest", "housing", "--offline", "--again")
    assert (status, "20,640 of 20,640 rows, real" in out) == (0, True)


@pytest.mark.parametrize("chosen", ["~nosuchuser/x", "loop/x"])
def test_a_home_that_cannot_be_reached_is_one_sentence(dpcost, tmp_path, monkeypatch, chosen):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("DPCOST_HOME", chosen)
    err = sentence(dpcost("status"))
    assert err.startswith(f"dpcost: DPCOST_HOME must be a folder that can be reached, got '{chosen}'")


@pytest.fixture
def broken(monkeypatch):
    """Let a command raise an error of choice."""

    def let(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr("flows.cli.catalogs.print_rows", fail)

    return let


def test_an_internal_error_shows_its_type_and_place_and_never_its_message(dpcost, broken, home):
    home.mkdir()
    broken(ValueError("value 42.5 of row 7"))
    status, out, err = dpcost("studies")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("dpcost: internal error, ValueError in tests/flows/test_cli.py:")
    log = (home / "faults.log").read_text()
    assert "flows/cli/main.py:" in log
    assert "42.5" not in err + log


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupted_command_says_so(dpcost, broken, error):
    broken(error)
    status, _, err = dpcost("studies")
    assert status == 1
    assert err.strip().startswith("dpcost: interrupted; finished blocks are stored")


def test_starting_is_light():
    """Ctrl-C while modules are loaded would be a traceback, so the command line loads few."""
    import subprocess

    code = (
        "import sys, flows.cli.main, flows.cli.catalogs; flows.cli.catalogs.studies()\n"
        "print([m for m in ('numpy', 'pandas', 'prefect') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


def test_an_error_that_ctrl_c_led_to_is_an_interruption(dpcost, monkeypatch):
    def interrupted(**_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as pressed:
            raise ValueError("a library's own words") from pressed

    monkeypatch.setattr("flows.cli.catalogs.print_rows", lambda *_: interrupted())
    status, _, err = dpcost("datasets")
    assert status == 1
    assert "interrupted" in err
    assert "library" not in err
