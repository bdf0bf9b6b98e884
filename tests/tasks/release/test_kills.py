"""Releases that are killed between charge and answer: nothing is shown uncharged, nothing is drawn twice."""

import json
import os
import random
import signal
import time

import numpy as np
import pandas as pd
import pytest

import tasks.release.release
from data.errors import AnswerLost
from data.ledger import Ledger
from tasks.release.release import draw_answer
from tests.tasks.analyst_tables import release

CONFIG = '[dataset]\nname = "people"\n[columns]\nx = ["age"]\n[bounds]\nlower = -1.0\nupper = {upper}\n'
N_KILLS = 24


def ask(home, folder, number, again=False):
    config = folder / f"release-{number}.toml"
    config.write_text(CONFIG.format(upper=1 + number / 1000))
    asked = Ledger(home), "box_mean", folder / "people.csv", config
    return release(*asked, epsilon=0.05, delta=1e-8, again=again)


def child(home, folder, number, notes):
    def noted(plan):
        os.write(notes, (json.dumps({"drawn": plan.question.id}) + "\n").encode())
        return draw_answer(plan)

    tasks.release.release.draw_answer = noted
    answer = ask(home, folder, number)
    os.write(notes, (json.dumps({"shown": answer.estimate, "charge": answer.charge.id}) + "\n").encode())


def test_of_killed_releases_nothing_is_shown_uncharged_and_nothing_is_drawn_twice(tmp_path):
    home = tmp_path / "home"
    rows = np.random.default_rng(0).uniform(-1, 1, 300)
    pd.DataFrame({"age": rows}).to_csv(tmp_path / "people.csv", index=False)
    Ledger(home).open_dataset("people", 10.0, 1e-6)
    ask(home, tmp_path, 9998)  # everything imported
    start = time.monotonic()
    ask(home, tmp_path, 9999)
    longest = time.monotonic() - start
    notes = os.open(tmp_path / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    chance, killed, number = random.Random(0), 0, 0
    while killed < N_KILLS:
        number += 1
        pid = os.fork()
        if pid == 0:
            try:
                child(home, tmp_path, number, notes)
            finally:
                os._exit(0)
        time.sleep(chance.random() * 1.1 * longest)
        os.kill(pid, signal.SIGKILL)
        killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
    said = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    drawn = [note["drawn"] for note in said if "drawn" in note]
    charges = Ledger(home).account("people").charges
    assert len(drawn) == len(set(drawn))
    assert set(drawn) <= {charge.question.id for charge in charges}
    stored = {c["id"]: c["answer"] for each in Ledger(home).show() for c in each["charges"]}
    for note in said:
        if "shown" in note:
            assert stored[note["charge"]]["estimate"] == note["shown"]
    lost = 0
    for k in range(1, number + 1):  # a second request shows what is stored, or charges what never was
        try:
            answer = ask(home, tmp_path, k)
            assert answer.replayed == (answer.charge.id in stored)
        except AnswerLost:
            lost += 1
    states = [charge.answer is None for charge in Ledger(home).account("people").charges]
    assert sum(states) == lost
    assert len(states) == number + 2
    assert Ledger(home).verify().ok


@pytest.mark.parametrize("user_id", [None, "person"])
def test_progress_tells_how_many_rows_were_read_unless_that_is_private(tmp_path, user_id):
    home, told = tmp_path / "home", []
    table = pd.DataFrame({"age": np.linspace(-1, 1, 600), "weight": 0.5, "person": np.arange(600) // 2})
    table.to_csv(tmp_path / "people.csv", index=False)
    Ledger(home).open_dataset("people", 100.0, 1e-5)
    users = 'user_id = "person"\n' if user_id else ""
    bounds = "[bounds]\nvalue_bound = 1.0\n" + "concentration_radius = 1.0\n" * bool(user_id)
    config = f'[dataset]\nname = "people"\n[columns]\nx = ["age", "weight"]\n{users}{bounds}'
    (tmp_path / "release.toml").write_text(config)
    files = tmp_path / "people.csv", tmp_path / "release.toml"
    name = "user_level_mean" if user_id else "dp_mean"
    release(Ledger(home), name, *files, epsilon=50.0, delta=1e-6, progress=told.append)
    assert told[-1:] == ([] if user_id else [600])
