"""Releases that start from second moments which earlier answers about the same rows released."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from data.errors import AnswerLost, ContentRefused, LedgerBroken
from data.ledger import Fingerprint, Request, Verdict, open_ledger
from dpalgos import InputError
from tasks.release import draw
from tasks.release.draw import release, spent_epsilon
from tasks.release.wish import Wish
from tests.stored_answers import stored_answers

ESTIMATOR = "preconditioned_regression"
CONFIG = '[dataset]\nname = "{name}"\n[columns]\nx = {x}\ny = "{y}"\n[params]\n{params}\n'
REUSE = 'reuse = "ledger"'


@pytest.fixture
def ledger(home):
    found = open_ledger(home)
    found.open_dataset("mine", 1e9, 1e-6)
    return found


@pytest.fixture
def ask(ledger, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((600, 4)), columns=["a", "b", "c", "cost"])
    table.to_csv(tmp_path / "table.csv", index=False)
    table.assign(a=table["a"] + 1).to_csv(tmp_path / "other.csv", index=False)
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "sorted.csv", index=False)

    def asked(
        params="",
        *,
        x=("a", "b", "c"),
        y="cost",
        epsilon=1.0,
        file="table.csv",
        estimator=ESTIMATOR,
        **options,
    ):
        config = tmp_path / "release.toml"
        config.write_text(CONFIG.format(name="mine", x=list(x), y=y, params=params))
        return release(ledger, estimator, tmp_path / file, config, epsilon=epsilon, delta=1e-7, **options)

    return asked


@pytest.fixture
def started(monkeypatch):
    """Return the list of moments that answers were drawn from."""
    found, real = [], draw.draw_release

    def drawn(plan, sample):
        found.append(getattr(plan.params, "released_moments", None))
        return real(plan, sample)

    monkeypatch.setattr(draw, "draw_release", drawn)
    return found


def stored(ledger, charge):
    moments = stored_answers(ledger)[charge]["second_moments"]
    return np.array(moments["values"]), moments["std"]


def test_an_answer_starts_from_the_moments_of_the_largest_epsilon_and_costs_no_more(ledger, ask, started):
    ask(epsilon=0.9)
    best = ask(epsilon=3.0)
    ask(epsilon=0.8)
    plain = ask(epsilon=0.5)
    assert not any([best.started_from, plain.started_from, *started])
    reused = ask(REUSE, epsilon=0.5, file="sorted.csv")
    assert reused.started_from == reused.record["release"]["ledger"]["started_from"] == best.charge
    moments, std = stored(ledger, best.charge)
    np.testing.assert_array_equal(started[-1][0], (moments + moments.T) / 2)
    assert started[-1][1] == std
    charges = {each.id: each for each in ledger.charges("mine")}
    assert charges[reused.charge].accounting["rho"] == charges[plain.charge].accounting["rho"]
    assert stored(ledger, reused.charge)[1] < std  # its own are a part of what it releases
    assert ask(REUSE, epsilon=0.4).started_from == best.charge
    assert ledger.verify().ok


def test_risk_and_guarantee_are_those_of_all_answers_that_one_builds_on(ledger, ask):
    first = ask(epsilon=3.0)
    second = ask(REUSE, epsilon=4.0)
    third = ask(REUSE, epsilon=0.1)
    assert third.started_from == second.charge
    together = spent_epsilon(ledger.charges("mine"), 1e-7)
    for answer in (third, ask(REUSE, epsilon=0.1)):
        assert answer.together_epsilon == pytest.approx(together)
        assert answer.record["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == together
        assert (
            answer.risk["posterior"]["0.1"] > second.risk["posterior"]["0.1"] > first.risk["posterior"]["0.1"]
        )
    assert first.together_epsilon == 3.0


def test_the_same_question_gets_the_stored_answer_although_there_are_better_moments_now(ask):
    first = ask()
    answer = ask(REUSE, epsilon=0.5)
    ask(epsilon=5.0)
    again = ask(REUSE, epsilon=0.5)
    assert again.replayed
    assert (again.estimate, again.charge) == (answer.estimate, answer.charge)
    assert again.started_from == answer.started_from == first.charge
    assert not ask(epsilon=0.5).replayed  # another question


@pytest.mark.parametrize(
    "other",
    [
        {"x": ("b", "a", "c")},
        {"x": ("a", "b")},
        {"y": "a", "x": ("cost", "b", "c")},
        {"params": "clip = [3.0, 3.0]"},
        {"estimator": "preconditioned_glm", "params": 'family = "gaussian"'},
        {"hold_by": "ann"},
        {"file": "other.csv"},
        {"wish": Wish(half_width=100.0)},
    ],
)
def test_moments_of_anything_else_are_not_taken(ledger, ask, other):
    ask(**other)
    with pytest.raises(InputError, match="reuse"):
        ask(REUSE, allow_new_content=True)
    assert len(ledger.charges("mine")) == 1


def test_moments_of_a_held_answer_are_free_once_it_is_approved(ledger, ask):
    held = ask(hold_by="ann")
    ledger.approve(held.charge, "ben")
    assert ask(REUSE, epsilon=0.5).started_from == held.charge
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "asked",
    [
        {"params": 'reuse = "yes"'},
        {"params": "reuse = true"},
        {"params": REUSE, "wish": Wish(half_width=1.0)},
        {"params": f"{REUSE}\nclip = [3.0, 3.0]"},
        {"params": f"{REUSE}\nreleased_moments = [[[1.0]], 1.0]"},
    ],
)
def test_a_wrong_wish_to_reuse_costs_nothing(ledger, ask, asked):
    ask()
    with pytest.raises(InputError, match=r"reuse|released_moments"):
        ask(**asked)
    assert len(ledger.charges("mine")) == 1


def test_other_rows_under_the_same_name_are_other_rows(ledger, ask):
    ask()
    with pytest.raises(InputError, match="reuse"):
        ask(REUSE, file="other.csv", allow_new_content=True)
    with pytest.raises(ContentRefused):
        ask(file="other.csv")


def test_moments_that_were_edited_are_noticed(ledger, ask, home):
    ask()
    with closing(sqlite3.connect(home / "ledger.sqlite")) as database:
        database.execute("DROP TRIGGER dpcost_ledger_no_update")
        edited = (
            "UPDATE dpcost_ledger SET body = replace(body, '\"std\":', '\"std\":1') WHERE kind = 'release'"
        )
        assert database.execute(edited).rowcount == 1
        database.commit()
    with pytest.raises(LedgerBroken):
        ask(REUSE, epsilon=0.5)
    assert not ledger.verify().ok


def test_an_answer_that_is_lost_loses_no_moments(ledger, ask, monkeypatch):
    first, real = ask(), draw.draw_release

    def killed(plan, sample):
        raise KeyboardInterrupt

    monkeypatch.setattr(draw, "draw_release", killed)
    with pytest.raises(KeyboardInterrupt):
        ask(REUSE, epsilon=0.5)
    monkeypatch.setattr(draw, "draw_release", real)
    with pytest.raises(AnswerLost):
        ask(REUSE, epsilon=0.5)
    assert ask(REUSE, epsilon=0.5, again=True).started_from == first.charge
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("held", "content", "problem"), [("ann", "a", "was not released"), ("", "c", "other rows")]
)
def test_verify_finds_a_charge_that_starts_from_what_it_may_not_know(ledger, held, content, problem):
    """An answer that was not approved, or one about other rows."""

    def charged(content, facts):
        request = Request("mine", Fingerprint(content * 64, "b" * 64), ESTIMATOR, facts, 1.0, 0.0, facts)
        verdict = Verdict(True, 0.0, 0.0)
        return ledger.charge(request, lambda *_: verdict, allow_new_content=True, hold_by=held)

    first = charged("a", {})
    ledger.store_release(first.id, {"estimate": 1.0})
    assert ledger.verify().ok
    charged(content, {"facts": {"started_from": first.id}})
    assert problem in ledger.verify().problems[0]


def test_moments_with_hardly_any_noise_do_not_make_a_release_of_large_rows_fail(ask, tmp_path):
    table = pd.read_csv(tmp_path / "table.csv")
    table.loc[0] = 1e12
    table["b"] = table["a"]
    table.to_csv(tmp_path / "table.csv", index=False)
    ask(epsilon=1e6)
    answer = ask(REUSE, epsilon=0.1)
    assert np.isfinite(list(answer.estimate.values())).all()
