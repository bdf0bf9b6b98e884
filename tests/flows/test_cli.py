"""Commands as a user types them; ``dpcost audit`` of our estimators and of anybody's mechanism."""

import json
import re

import pytest

from dpalgos.audit import lower_bound
from dpalgos.audit.lower_bound import audit_estimator
from flows.cli.main import main


def test_ingest_again_takes_what_the_mirror_has_now(command_line, home, tmp_path, monkeypatch):
    assert command_line("ingest", "housing", "--offline")[0] == 0
    raw = home / "store" / "raw" / "housing" / "cal_housing.tgz"
    before = raw.stat().st_ino
    assert command_line("ingest", "housing", "--offline", "--again")[0] == 0
    assert raw.stat().st_ino != before
    monkeypatch.delenv("DPCOST_DATA_MIRROR")
    status, out, _ = command_line("ingest", "housing", "--offline", "--again")
    assert (status, "20,640 of 20,640 rows, real" in out) == (0, True)


def fails():
    raise ValueError("value 42.5 of row 7")


def by_ctrl_c():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as pressed:
        raise ValueError("value 42.5 of row 7") from pressed


@pytest.mark.parametrize(("error", "named"), [(fails, "ValueError in tests/"), (by_ctrl_c, "interrupted")])
def test_an_error_within_shows_its_place_and_never_its_message(command_line, monkeypatch, home, error, named):
    home.mkdir()
    monkeypatch.setattr("flows.cli.catalogs.show", lambda *_: error())
    status, out, err = command_line("studies")
    assert (status, out, named in err) == (1, "", True)
    assert "42.5" not in err + "".join(path.read_text() for path in home.glob("faults.log"))


@pytest.mark.parametrize(
    ("command", "named"),
    [("release", "no question is charged twice"), ("ledger", "finished blocks are stored")],
)
def test_ctrl_c_says_what_the_command_leaves(monkeypatch, home, capsys, command, named):
    monkeypatch.setattr("sys.argv", ["dpcost", command])
    monkeypatch.setattr("flows.cli.main.app", lambda **_: by_ctrl_c())
    monkeypatch.setattr("flows.cli.main.signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, named in capsys.readouterr().err) == (1, True)


@pytest.fixture
def few_runs(monkeypatch):
    """A tenth of the trials: the least that the command takes are more than these tests need."""

    def audited(*names, n_trials, **options):
        return audit_estimator(*names, n_trials=n_trials // 10, **options)

    monkeypatch.setattr(lower_bound, "audit_estimator", audited)


def test_an_audit_from_the_command_line(command_line, few_runs):
    status, out, _ = command_line("audit", "dp_mean", "--trials", 1000, "--json")
    assert status == 0
    rows = json.loads(out)
    assert {row["calibration"] for row in rows} == {"tight", "paper"}
    assert all(row["epsilon_lower_bound"] <= row["certified_epsilon"] for row in rows)
    status, out, _ = command_line("audit", "dp_mean", "--trials", 1000, "--param", "interval=0.95")
    assert status == 0
    assert out.startswith("dp_mean tight: audited")
    assert "dp_mean paper" not in out


MECHANISMS = """
import numpy as np

def leaky(table, seed):
    return table.mean(axis=0)

def private(table, seed):
    return np.random.default_rng(seed).normal(size=2)

"""


def test_a_mechanism_of_anybody_is_audited_against_its_claim(command_line, tmp_path, monkeypatch):
    (tmp_path / "mechanisms_of_mine.py").write_text(MECHANISMS)
    monkeypatch.chdir(tmp_path)
    asked = ["audit", "--trials", 1000, "--epsilon", 1, "--delta", 0, "--json", "--callable"]
    status, out, _ = command_line(*asked, "mechanisms_of_mine:leaky")
    assert status == 1
    assert json.loads(out)["epsilon_lower_bound"] > 3
    status, out, _ = command_line(*asked, "mechanisms_of_mine:private")
    assert status == 0
    assert json.loads(out)["verdict"] == "no violation found"


def test_an_estimator_whose_example_holds_public_rows_is_audited(command_line, few_runs):
    status, out, _ = command_line("audit", "public_axes_mean", "--hardened", "--trials", 1000, "--json")
    assert status == 0
    assert all(row["verdict"] == "no violation found" for row in json.loads(out))


def test_settings_of_a_form_are_audited(command_line, few_runs):
    status, out, _ = command_line("audit", "box_mean", "--trials", 1000, "--param", "interval=0.95", "--json")
    assert status == 0
    (row,) = json.loads(out)
    assert "shares by size" in row["noise_ratios"]


def test_the_plan_of_an_estimator_is_printed(command_line):
    numbers = ["--n", "5000", "--d", "9"]
    status, out, err = command_line("estimators", "preconditioned_glm", *numbers, "--family", "logistic")
    assert (status, err) == (0, "")
    assert "ε = 1 at" in out
    assert re.search(r"second moments +1 +0\.0\d+ +√2 r²/n", out)
    plan = json.loads(command_line("estimators", "dp_mean", *numbers, "--json")[1])
    assert (plan["name"], plan["public"]) == ("dp_mean", {"n": 5000, "d": 9})
    assert [each["label"] for each in plan["releases"]] == ["mean"]


def test_settings_by_forecast_are_printed_for_the_sizes_of_the_plan(command_line):
    few, many = (["--n", str(n), "--d", "5"] for n in (2000, 200_000))
    plans = [
        json.loads(command_line("estimators", "dp_linear_regression", *n, "--json")[1]) for n in (few, many)
    ]
    steps = [plan["by_forecast"]["tight"]["n_iterations"] for plan in plans]
    assert steps[0] < steps[1]
    _, out, _ = command_line("estimators", "dp_linear_regression", *many)
    assert re.search(rf"tight +n_iterations = {steps[1]}, step_size = ", out)
    assert "n_iterations = " in command_line("estimators", "dp_linear_regression")[1]
    assert "by_forecast" not in json.loads(command_line("estimators", "dp_mean", *few, "--json")[1])


@pytest.mark.parametrize("group", ["ledger", "protocol", "cache"])
def test_a_group_without_a_command_prints_its_help(command_line, group):
    status, out, err = command_line(group)
    assert (status, err) == (0, "")
    assert f"dpcost {group} [OPTIONS] COMMAND" in out


def test_an_audit_attacks_a_person_with_all_rows(command_line, few_runs):
    status, out, _ = command_line("audit", "box_mean", "--people", "--trials", "1000")
    assert status == 0
    assert "no violation" in out
