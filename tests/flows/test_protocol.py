"""``dpcost protocol`` and ``dpcost ledger give-back`` as their user meets them."""

import pytest

import tasks.protocol.prepare
import tasks.release.release
from data.ledger import open_ledger
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tests.tasks.protocol.trials import SMALL, SMALL_N, edit, plan_once, simulate_on_few, written

BUDGET = ("--epsilon", 3, "--delta", 1e-6)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks.protocol.prepare, "simulate_release", simulate_on_few)
    monkeypatch.setattr(tasks.release.release, "release_plan", plan_once)
    return written(tmp_path, SMALL_N, SMALL)


@pytest.mark.parametrize("command", ["check", "advise"])
def test_check_shows_the_split_and_says_how_to_open_the_budget(command_line, file, command):
    (file.parent / "trial.parquet").unlink()
    status, out, _ = command_line("protocol", command, file)
    assert status == 0
    assert all(word in out for word in ("primary", "C(arm)[T.drug]", "2.50", "mean baseline"))
    assert "dpcost ledger open trial --epsilon 3 --delta 1e-06" in out


def test_a_file_of_another_kind_is_named(command_line, file):
    status, _, err = command_line("protocol", "check", file.with_name("trial.toml"))
    assert (status, err.count(";")) == (2, 0)
    status, _, err = command_line("check", file)
    assert status == 2
    assert "dpcost protocol check" in err


def test_check_refuses_targets_that_do_not_fit_and_still_shows_the_table(command_line, file):
    edit(file, ("= 2.5", "= 1.3"), ("epsilon = 3.0", "epsilon = 0.5"))
    status, out, err = command_line("protocol", "check", file)
    assert (status, err.count("dpcost: ")) == (2, 1)  # next to its progress
    assert "C(arm)[T.drug]" in out
    assert "inf" not in out
    assert "they need epsilon" in err


def test_a_release_without_budget_consent_or_folder_reserves_nothing(command_line, file, tmp_path):
    def refused(*words, named):
        status, _, err = command_line("protocol", "release", file, *words)
        assert status == 2
        assert named in err
        return not [each for each in open_ledger().show() if each["charges"]]

    assert refused(named="'trial' has no budget")
    command_line("ledger", "open", "trial", *BUDGET)
    assert refused(named="--yes")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    assert refused("--yes", "--out", tmp_path / "other", named="other")


def test_a_reserve_is_shown_and_given_back(command_line, file):
    ledger = open_ledger()
    ledger.open_dataset("trial", 3.0, 1e-6)
    reserve_plan(prepare_plan(read_plan(file), ledger.account("trial")), ledger)
    assert "reserved  trial-plan/primary" in command_line("ledger", "show")[1]
    assert command_line("ledger", "give-back", "trial", "trial-plan/primary")[0] == 0
    assert [each.reserve for each in ledger.account("trial").charges] == ["trial-plan/mean baseline"]
    status, _, err = command_line("ledger", "give-back", "trial", "trial-plan/primary")
    assert status == 2
    assert "trial-plan/primary" in err


def test_a_release_refuses_a_plan_that_changed_since_it_was_shown(command_line, file):
    open_ledger().open_dataset("trial", 3.0, 1e-6)
    digest = read_plan(file).digest
    edit(file, ("= 2.5", "= 2.6"))
    status, _, err = command_line("protocol", "release", file, "--yes", "--digest", digest)
    assert (status, file.name in err) == (2, True)
    assert not open_ledger().account("trial").charges
