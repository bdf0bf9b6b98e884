"""Processes want more than a budget allows: three at once, or eight of which twenty times one is killed."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from data.store.folders import PROJECT_ROOT
from tests.data.ledger.charging import EPSILON, read_notes

WORKER = Path(__file__).with_name("charging.py")
TIMEOUT = 1200.0
# How many processes, questions, answers that the budget allows, questions that every process asks, and kills
SIZES = [(3, 11, 8, 11, 0), pytest.param((8, 1000, 700, 20, 20), marks=pytest.mark.slow)]


@pytest.mark.parametrize("sizes", SIZES)
def test_no_overspending_and_nothing_lost_among_processes_that_are_killed(place, tmp_path, sizes):
    n_processes, n_wanted, n_allowed, n_shared, n_kills = sizes
    budget, ledger = n_allowed * EPSILON, place.ledger()
    ledger.open_dataset("patients", budget, 0.0)
    notes = [tmp_path / f"notes-{worker}" for worker in range(n_processes)]

    def start(worker):
        asked = [*range(n_shared + worker, n_wanted, n_processes), *range(n_shared)]
        random.Random(worker).shuffle(asked)
        words = place.home, place.url or "", notes[worker], str(budget), json.dumps(asked)
        command = [sys.executable, str(WORKER), *words]
        return subprocess.Popen(command, cwd=PROJECT_ROOT, stderr=subprocess.PIPE)

    chance = random.Random(0)
    running = {worker: start(worker) for worker in range(n_processes)}
    n_killed = 0
    deadline = time.monotonic() + TIMEOUT
    try:
        while running:
            assert time.monotonic() < deadline, "the processes hang"
            time.sleep(chance.random() * 0.01)
            for worker, process in list(running.items()):
                if process.poll() is not None:
                    assert process.returncode == 0, process.stderr.read()
                    del running[worker]
            n_notes = sum(path.read_bytes().count(b"\n") for path in notes if path.exists())
            if running and n_killed < n_kills and n_notes > 100 * (n_killed + 1):
                worker = chance.choice(list(running))
                if running[worker].poll() is None:
                    running[worker].kill()
                    n_killed += running[worker].wait() == -signal.SIGKILL
                    running[worker] = start(worker)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert n_killed == n_kills

    said = [note for path in notes for note in read_notes(path)]
    charges = ledger.account("patients").charges
    committed = {charge.id for charge in charges}
    # More was wanted, and not one more was admitted.
    assert sum(charge.epsilon for charge in charges) == budget
    assert len(committed) == len(charges) == n_allowed
    assert {note["charge"] for note in said if "charge" in note} <= committed  # no committed charge vanished
    wanted = {note["question"] for note in said if note["step"] == "wanted"}
    assert {charge.question.parameters["question"] for charge in charges} <= wanted

    shown = {(note["charge"], note["noise"]) for note in said if note["step"] == "shown"}
    stored = {charge.id: charge.answer for charge in charges}
    assert all(stored[charge] == {"noise": noise} for charge, noise in shown)  # no answer without a charge
    assert max(Counter(charge for charge, _ in shown).values()) == 1  # one answer to a question, whoever asks
    shared = [note for note in said if note["step"] == "shown" and note["question"] < n_shared]
    assert len(shared) > len({note["question"] for note in shared})
    states = Counter(charge["state"] for charge in ledger.show("patients")[0]["charges"])
    assert states["no answer"] <= n_kills
    assert (report := ledger.verify()).ok, report.problems
