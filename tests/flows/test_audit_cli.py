"""``dpcost audit``, as a user types it."""

import json

import pytest
from small_project import sentence

from dpalgos.audit import lower_bound
from dpalgos.audit.lower_bound import audit_estimator


@pytest.fixture
def dpcost(command_line):
    return command_line


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
