"""Eight processes want 1,000 charges from a budget for 700, and twenty times one of them is killed."""

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
from tests.data.ledger.charging import read_notes

N_PROCESSES, N_WANTED, N_ALLOWED, N_KILLS = 8, 1000, 700, 20
N_SHARED = 20  # questions that every process asks
EPSILON = 1 / 1024  # sums are exact
WORKER = Path(__file__).with_name("charging.py")
TIMEOUT = 600.0


def questions(worker):
    """Return what one process asks: its own share, and among them what all ask."""
    own = list(range(N_SHARED + worker, N_WANTED, N_PROCESSES))
    asked = own + list(range(N_SHARED))
    random.Random(worker).shuffle(asked)
    return asked


def start(place, notes, budget, wanted):
    return subprocess.Popen(
        [sys.executable, str(WORKER), place.home, place.url or "", notes, str(budget), json.dumps(wanted)],
        cwd=PROJECT_ROOT,
        stderr=subprocess.PIPE,
    )


def test_processes_at_once_do_not_overspend_and_share_answers(place, tmp_path):
    place.ledger().open_dataset("patients", 8 * EPSILON, 0.0)
    notes = [tmp_path / f"notes-{worker}" for worker in range(3)]
    running = [start(place, path, 8 * EPSILON, list(range(11))) for path in notes]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    said = [note for path in notes for note in read_notes(path)]
    shown = {(note["question"], note["charge"], note["noise"]) for note in said if note["step"] == "shown"}
    assert len(shown) == len(place.ledger().account("patients").charges) == 8
    assert sum(note["step"] == "refused" for note in said) == 3 * 3
    assert place.ledger().verify().ok


@pytest.mark.slow
def test_no_overspending_and_nothing_lost_among_processes_that_are_killed(place, tmp_path):
    budget = N_ALLOWED * EPSILON
    ledger = place.ledger()
    ledger.open_dataset("patients", budget, 0.0)
    notes = [tmp_path / f"notes-{worker}" for worker in range(N_PROCESSES)]

    def start_worker(worker):
        return start(place, notes[worker], budget, questions(worker))

    chance = random.Random(0)
    running = {worker: start_worker(worker) for worker in range(N_PROCESSES)}
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
            if running and n_killed < N_KILLS and n_notes > 100 * (n_killed + 1):
                worker = chance.choice(list(running))
                if running[worker].poll() is None:
                    running[worker].kill()
                    if running[worker].wait() == -signal.SIGKILL:
                        n_killed += 1
                    running[worker] = start_worker(worker)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert n_killed == N_KILLS

    said = [note for path in notes for note in read_notes(path)]
    charges = ledger.account("patients").charges
    committed = {charge.id for charge in charges}
    # More was wanted, and not one more was admitted.
    assert sum(charge.epsilon for charge in charges) == budget
    assert len(committed) == len(charges) == N_ALLOWED
    assert {note["charge"] for note in said if "charge" in note} <= committed  # no committed charge vanished
    wanted = {note["question"] for note in said if note["step"] == "wanted"}
    assert {charge.question.parameters["question"] for charge in charges} <= wanted

    shown = {(note["charge"], note["noise"]) for note in said if note["step"] == "shown"}
    stored = {charge.id: charge.answer for charge in charges}
    assert all(stored[charge] == {"noise": noise} for charge, noise in shown)  # no answer without a charge
    assert max(Counter(charge for charge, _ in shown).values()) == 1  # one answer to a question, whoever asks
    shared = [note for note in said if note["step"] == "shown" and note["question"] < N_SHARED]
    assert len(shared) > len({note["question"] for note in shared})

    states = Counter(charge["state"] for charge in ledger.show("patients")[0]["charges"])
    assert states["no answer"] <= N_KILLS
    report = ledger.verify()
    assert report.ok, report.problems
    print(f"{n_killed} kills, {dict(states)}, {report.n_charges} charges")
