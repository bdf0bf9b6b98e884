"""Releases and plans that are killed: nothing is shown uncharged or drawn twice, no answer is lost."""

import json
import os
import random
import signal
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tasks.protocol.prepare
import tasks.release.release
from data.errors import AnswerLost
from data.ledger import Ledger
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tasks.protocol.registration import registration_of
from tasks.question import release_question
from tasks.release.release import draw_answer
from tests.builders import release_file
from tests.tasks.analyst_tables import release
from tests.tasks.protocol.trials import PLAN, SMALL, SMALL_N, simulate_on_few, written


class Notes:
    """Notes of processes that may be killed: each line is written at once."""

    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, **note):
        os.write(self.file, (json.dumps(note) + "\n").encode())

    def of(self, what):
        notes = map(json.loads, self.path.read_text().splitlines())
        return [note[what] for note in notes if what in note]


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Notes of this test's processes, which note what they draw."""
    notes = Notes(tmp_path / "notes")

    def noted(plan):
        notes.add(drawn=plan.question.id)
        return draw_answer(plan)

    monkeypatch.setattr(tasks.release.release, "draw_answer", noted)
    return notes


def ended(call, seconds=None):
    """Call a function in a process, kill it after some seconds, and return how it ended."""
    if (pid := os.fork()) == 0:
        try:
            call()
            os._exit(0)
        finally:
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize(("n_kills", "plan"), [(6, SMALL), pytest.param(24, PLAN, marks=pytest.mark.slow)])
def test_of_killed_plans_nothing_is_lost_or_drawn_twice(n_kills, plan, tmp_path, notes, monkeypatch):
    monkeypatch.setattr(tasks.protocol.prepare, "simulate_release", simulate_on_few)
    prepared = prepare_plan(read_plan(written(tmp_path, SMALL_N, plan)))
    epsilons = dict.fromkeys(prepared.plan.requests, 0.5)
    prepared = replace(prepared, split=replace(prepared.split, epsilons=epsilons))
    chance, killed, number, longest = random.Random(0), 0, 0, None

    def run_plan():
        """Do what the command does after its question."""
        ledger = Ledger(home)
        reserve_plan(prepared, ledger)
        for name, charges in registration_of(prepared.plan, ledger.account("trial")).charges.items():
            try:
                release_question.fn(prepared.plan, name, charges[-1], folder, again=False)
            except AnswerLost:
                notes.add(lost=(number, name))

    while killed < n_kills:
        number += 1
        home, folder = tmp_path / f"home {number}", tmp_path / f"out {number}"
        monkeypatch.setenv("DPCOST_HOME", str(home))
        Ledger(home).open_dataset("trial", 2.0, 1e-6)
        stored, status = {}, None
        while status != 0:  # until the plan ends undisturbed
            began, is_undisturbed = time.monotonic(), longest is None or killed == n_kills
            seconds = None if is_undisturbed else chance.random() * longest
            status = ended(run_plan, seconds)
            killed += status == signal.SIGKILL
            account = Ledger(home).account("trial")
            answers = {each.id: each.answer for each in account.charges if each.answer is not None}
            assert stored.items() <= answers.items()  # what was answered stays
            stored = answers
            assert status in (0, signal.SIGKILL)
        longest = longest or time.monotonic() - began
        drawn = notes.of("drawn")
        assert len(drawn) == len(set(drawn))
        assert len(account.charges) == len(epsilons)
        lost = {name for of, name in notes.of("lost") if of == number}
        assert len(stored) == len(account.charges) - len(lost)
        shown = {path.parent.name for path in folder.glob("*/release.json")}
        assert shown == {
            each.reserve.partition("/")[2] for each in account.charges if each.answer is not None
        }
        assert Ledger(home).verify().ok


@pytest.mark.parametrize("user_id", [None, "person"])
def test_progress_tells_how_many_rows_were_read_unless_that_is_private(tmp_path, user_id):
    ledger, told = Ledger(tmp_path / "home"), []
    table = pd.DataFrame({"age": np.linspace(-1, 1, 600), "weight": 0.5, "person": np.arange(600) // 2})
    table.to_csv(tmp_path / "people.csv", index=False)
    ledger.open_dataset("people", 100.0, 1e-5)
    columns = 'user_id = "person"' if user_id else ""
    bounds = "value_bound = 1.0\n" + "concentration_radius = 1.0\n" * bool(user_id)
    config = release_file(tmp_path, "people", ["age", "weight"], columns=columns, bounds=bounds)
    name = "user_level_mean" if user_id else "dp_mean"
    release(ledger, name, tmp_path / "people.csv", config, epsilon=50.0, delta=1e-6, progress=told.append)
    assert told[-1:] == ([] if user_id else [600])
