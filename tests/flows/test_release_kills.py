"""Releases by half-width that are killed: nothing is shown uncharged, and nothing is drawn twice."""

import json
import os
import random
import signal
import time

import numpy as np
import pandas as pd
import pytest

from data.ledger import AnswerLost, Ledger
from dpalgos.accounting.composition import Spending
from tasks.release.draw import release
from tasks.release.wish import Wish
from tests.stored_answers import stored_answers

CONFIG = """
[dataset]
name = "patients"
[columns]
x = ["age"]
[bounds]
lower = -1.0
upper = 1.0
"""
N_KILLS = 30


def ask(home, folder, width, again=False):
    return release(
        Ledger(home), "box_mean", folder / "patients.csv", folder / "release.toml",
        epsilon=0.5, delta=1e-7, wish=Wish(half_width=width, growth=1.5), again=again,
    )  # fmt: skip


def child(home, folder, width, notes):
    """Release, and note every attempt that was begun and what was shown."""
    begin = Ledger.begin_attempt

    def noted(ledger, charge, number):
        begin(ledger, charge, number)
        os.write(notes, (json.dumps({"charge": charge, "begun": number}) + "\n").encode())

    Ledger.begin_attempt = noted
    answer = ask(home, folder, width)
    os.write(notes, (json.dumps({"charge": answer.charge, "shown": answer.estimate}) + "\n").encode())


@pytest.mark.slow
def test_of_thirty_killed_releases_nothing_is_shown_uncharged_and_no_attempt_is_drawn_twice(tmp_path):
    home = tmp_path / "home"
    table = pd.DataFrame({"age": np.random.default_rng(0).uniform(-1, 1, 300)})
    table.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "release.toml").write_text(CONFIG)
    Ledger(home).open_dataset("patients", 10.0, 1e-6)
    ask(home, tmp_path, 0.9)  # how long one takes, everything imported
    start = time.monotonic()
    ask(home, tmp_path, 0.0101)
    longest = time.monotonic() - start
    notes = os.open(tmp_path / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    chance, killed, number = random.Random(0), 0, 0
    while killed < N_KILLS:
        width = 0.01 + 0.0001 * number
        number += 1
        pid = os.fork()
        if pid == 0:
            try:
                child(home, tmp_path, width, notes)
            finally:
                os._exit(0)
        time.sleep(chance.random() * longest)
        os.kill(pid, signal.SIGKILL)
        killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
    ledger = Ledger(home)
    said = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    begun = [(note["charge"], note["begun"]) for note in said if "begun" in note]
    assert len(begun) == len(set(begun))
    assert len({charge for charge, _ in begun}) > 5
    stored = stored_answers(ledger)
    for note in said:
        if "shown" in note:
            assert stored[note["charge"]]["estimate"] == note["shown"]
    for k in range(number):  # a second request draws nothing
        before = (tmp_path / "notes").read_text()
        try:
            assert ask(home, tmp_path, 0.01 + 0.0001 * k).charge
        except AnswerLost:
            assert (tmp_path / "notes").read_text() == before
    ask(home, tmp_path, 0.8)  # ends what was abandoned
    for charge in ledger.charges("patients"):
        last = max((made for of, made in begun if of == charge.id), default=0)
        reserved = charge.accounting["attempts"]
        cost = Spending(rho=charge.accounting["rho"])
        if last:
            assert cost.rho >= reserved[last - 1]["rho"]
    assert ledger.verify().ok
