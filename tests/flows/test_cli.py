"""Commands as a user types them; ``dpcost audit`` of our estimators and of anybody's mechanism."""

import json
import sys

import pytest
from small_project import sentence

from dpalgos.audit import lower_bound
from dpalgos.audit.lower_bound import audit_estimator


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


@pytest.fixture
def few_runs(monkeypatch):
    """A tenth of the trials: the least that the command takes are more than these tests need."""

    def audited(*names, n_trials, **options):
        return audit_estimator(*names, n_trials=n_trials // 10, **options)

    monkeypatch.setattr(lower_bound, "audit_estimator", audited)


def test_an_audit_from_the_command_line(dpcost, few_runs):
    status, out, _ = dpcost("audit", "dp_mean", "--trials", 1000, "--json")
    assert status == 0
    rows = json.loads(out)
    assert {row["calibration"] for row in rows} == {"tight", "paper"}
    assert all(row["epsilon_lower_bound"] <= row["certified_epsilon"] for row in rows)
    assert dpcost("audit", "ols")[0] == 2
    status, out, _ = dpcost("audit", "dp_mean", "--trials", 1000, "--interval", 0.95)
    assert status == 0
    assert out.startswith("dp_mean tight: audited")
    assert "dp_mean paper" not in out
    assert "interval must" in dpcost("audit", "sheffet_ols", "--interval", 0.95)[2]
    assert dpcost("audit", "dp_mean", "--trials", 10)[0] == 2


MECHANISMS = """
import numpy as np

def leaky(table, seed):
    return table.mean(axis=0)

def private(table, seed):
    return np.random.default_rng(seed).normal(size=2)

def leaves(table, seed):
    raise SystemExit(0)

NUMBER = 3
"""


def test_a_mechanism_of_anybody_is_audited_against_its_claim(dpcost, tmp_path, monkeypatch):
    (tmp_path / "mechanisms_of_mine.py").write_text(MECHANISMS)
    monkeypatch.chdir(tmp_path)
    asked = ["audit", "--trials", 1000, "--epsilon", 1, "--delta", 0, "--json", "--callable"]
    status, out, _ = dpcost(*asked, "mechanisms_of_mine:leaky")
    assert status == 1
    assert json.loads(out)["epsilon_lower_bound"] > 3
    status, out, _ = dpcost(*asked, "mechanisms_of_mine:private")
    assert status == 0
    assert json.loads(out)["verdict"] == "no violation found"
    # An exit within a run is an answer like an error; the command itself goes on.
    assert "SystemExit" in sentence(dpcost(*asked, "mechanisms_of_mine:leaves"))
    assert "columns" in sentence(dpcost(*asked, "mechanisms_of_mine:private", "--columns", 10**8))
    for bound in ("-1", "nan", "inf"):
        assert bound in sentence(dpcost(*asked, "mechanisms_of_mine:private", "--bound", bound))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["dp_mean", "--callable", "a:b"],
        ["--callable", "no_colon"],
        ["--callable", "no_such_module_here:f"],
        ["--callable", "json:nothing"],
        ["--callable", "json:__name__"],
        ["--callable", "json:dumps", "--interval", "0.95"],
        ["dp_mean", "--rows", "20"],
    ],
)
def test_an_audit_of_nothing_or_with_options_of_another_is_refused_in_one_sentence(dpcost, words):
    err = sentence(dpcost("audit", *words))
    assert all(word in err for word in words[2:] if word == "--interval")


def test_an_estimator_whose_example_holds_public_rows_is_audited(dpcost):
    status, out, _ = dpcost("audit", "public_axes_mean", "--trials", 1000, "--json")
    assert status == 0
    assert all(row["verdict"] == "no violation found" for row in json.loads(out))


def test_settings_of_a_form_are_audited(dpcost, few_runs):
    status, out, _ = dpcost("audit", "box_mean", "--trials", 1000, "--param", "interval=0.95", "--json")
    assert status == 0
    (row,) = json.loads(out)
    assert "shares by size" in row["noise_ratios"]
    for wrong in ("nonsense=1", "nonsense", "clip="):
        assert wrong.split("=")[0] in sentence(dpcost("audit", "preconditioned_regression", "--param", wrong))
