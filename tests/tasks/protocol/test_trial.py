"""The plan of a trial, measured: forecasts, targets and budget over many trials; kills at random moments."""

import json
import os
import random
import signal
import time
from dataclasses import replace
from math import inf

import numpy as np
import pytest

import tasks.release.release
from data.errors import AnswerLost
from data.ledger import Ledger
from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.composition import Spending
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tasks.protocol.registration import registration_of
from tasks.question import release_question
from tasks.release.record import record_of
from tasks.release.release import Charging, draw_answer, release
from tests.independent.accountant import epsilon_of_rho, rho_of
from tests.tasks.protocol.trials import trial, written

SEEDS = 40
N_KILLS = 20


def half_widths(record):
    ends = {each["name"]: (each["lower"], each["upper"]) for each in record["release"]["answer"]}
    return {name: np.nan if low is None else (high - low) / 2 for name, (low, high) in ends.items()}


def released(prepared, home, names):
    """Release some questions of a plan within a budget of their own; return half-widths and drawn events."""
    plan, ledger = prepared.plan, Ledger(home)
    ledger.open_dataset("trial", plan.plan.epsilon, plan.plan.delta)
    reserve_plan(prepared, ledger)
    events, widths = [], {}
    for name in names:
        found = release(
            ledger, plan.request(name, prepared.split.epsilons[name]), plan.data, charging=Charging()
        )
        events += found.plan.drawing.events
        widths[name] = half_widths(record_of(found))
    return widths, events


@pytest.mark.slow
def test_forecasts_and_targets_hold_and_the_split_is_better_than_an_equal_one(tmp_path, capsys):
    plan = read_plan(written(tmp_path))
    prepared = prepare_plan(plan)
    assert not prepared.split.refusal
    names = [each.name for each in plan.plan.released]
    share = concentrated_rho(plan.plan.epsilon, plan.plan.delta) / len(names)
    epsilon = 0.9999 * Spending(rho=share, pure_epsilon=inf).epsilon(plan.plan.delta)
    equal = replace(prepared, split=replace(prepared.split, epsilons=dict.fromkeys(names, epsilon)))
    held, met, smaller, totals = [], [], [], []
    for seed in range(SEEDS):
        trial(5000 + seed).to_parquet(tmp_path / "trial.parquet")
        widths, events = released(prepared, tmp_path / f"plan {seed}", names)
        others, _ = released(equal, tmp_path / f"equal {seed}", ["primary"])
        for name in names:
            for term, low, _, high in prepared.forecasts[name]["terms"]:
                held.append(low <= widths[name][term] <= high)
        targets = [
            (each.name, term, target)
            for each in plan.plan.released
            for term, target in each.precision.items()
        ]
        met.append(all(widths[name][term] <= target for name, term, target in targets))
        smaller.append(widths["primary"]["arm[T.drug]"] < others["primary"]["arm[T.drug]"])
        totals.append(epsilon_of_rho(rho_of(events)[0], plan.plan.delta))
    with capsys.disabled():
        shares = {
            "held": np.mean(held),
            "targets met": np.mean(met),
            "below an equal split": np.mean(smaller),
        }
        print("\n", {**shares, "largest total": max(totals)}, dict(prepared.split.epsilons))
    assert np.mean(held) >= 0.9
    assert np.mean(met) >= 0.75  # measured 1.0 here, and 0.975 on the seeds that chose the trial
    assert np.mean(smaller) >= 0.75  # measured 1 and .95
    assert max(totals) <= plan.plan.epsilon


def child(prepared, home, folder, notes):
    """Do what the command does after its question, and note what is drawn and what is shown."""
    os.environ["DPCOST_HOME"] = str(home)

    def noted(plan):
        os.write(notes, (json.dumps({"drawn": plan.question.id}) + "\n").encode())
        return draw_answer(plan)

    tasks.release.release.draw_answer = noted
    plan, ledger = prepared.plan, Ledger(home)
    reserve_plan(prepared, ledger)
    for name, charges in registration_of(plan, ledger.account("trial")).items():
        try:
            release_question.fn(plan, name, charges[-1], folder, again=False)
        except AnswerLost:
            os.write(notes, (json.dumps({"lost": name}) + "\n").encode())


def test_of_killed_plans_nothing_is_lost_or_drawn_twice(tmp_path):
    prepared = prepare_plan(read_plan(written(tmp_path, 1500)))
    prepared = replace(
        prepared, split=replace(prepared.split, epsilons=dict.fromkeys(prepared.plan.requests, 0.5))
    )
    chance, killed, number, longest = random.Random(0), 0, 0, None
    while killed < N_KILLS:
        number += 1
        home, folder = tmp_path / f"home {number}", tmp_path / f"out {number}"
        Ledger(home).open_dataset("trial", 2.0, 1e-6)
        notes = os.open(tmp_path / f"notes {number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        stored = {}
        while True:  # until the plan ends undisturbed
            began = time.monotonic()
            if (pid := os.fork()) == 0:
                try:
                    child(prepared, home, folder, notes)
                    os._exit(0)
                finally:
                    os._exit(1)
            if longest is not None and killed < N_KILLS:
                time.sleep(chance.random() * longest)
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            killed += status == signal.SIGKILL
            account = Ledger(home).account("trial")
            answers = {each.id: each.answer for each in account.charges if each.answer is not None}
            assert stored.items() <= answers.items()  # what was answered stays
            stored = answers
            if status == 0:
                break
            assert status == signal.SIGKILL
        longest = longest or time.monotonic() - began
        said = [json.loads(line) for line in (tmp_path / f"notes {number}").read_text().splitlines()]
        drawn = [note["drawn"] for note in said if "drawn" in note]
        assert len(drawn) == len(set(drawn))
        assert len(account.charges) == len(prepared.split.epsilons)
        lost = {note["lost"] for note in said if "lost" in note}
        assert len(stored) == len(account.charges) - len(lost)
        shown = {path.parent.name for path in folder.glob("*/release.json")}
        assert shown == {
            each.reserve.partition("/")[2] for each in account.charges if each.answer is not None
        }
        assert Ledger(home).verify().ok
