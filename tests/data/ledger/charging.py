"""One process of the stress test: ask for a list of answers, and write down before and after each step.

Killed and started again, it goes on where its notes end.
"""

import json
import os
import random
import secrets
import sys
import time
from pathlib import Path

from data.errors import AnswerLost, BudgetExhausted
from data.ledger import Ledger, PrivacyCost, Question

EPSILON = 1 / 1024
COST = PrivacyCost(rho=0.001, unit="row", facts={"events": [1.5]})


def charged(ledger, question, cost, fits, **options):
    """Return the charge of a question, which nobody answers now if there is no answer yet."""
    with ledger.answering(question, cost, fits, **options) as (charge, _):
        return charge


def main(home, url, notes, budget, wanted):
    ledger = Ledger(Path(home), url or None)
    done = {note["question"] for note in read_notes(Path(notes)) if note["step"] in ("shown", "refused")}
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(**what):
        os.write(descriptor, (json.dumps(what) + "\n").encode())

    def fits(previous, new):
        spent = sum(charge.epsilon for charge in previous)
        if spent + new.epsilon > float(budget):
            raise BudgetExhausted("spent")

    for question in json.loads(wanted):
        if question in done:
            continue
        request = Question("patients", "2-a", "dp_mean", {"question": question}, EPSILON, 0.0)
        note(step="wanted", question=question)
        for again in (False, True):
            try:
                with ledger.answering(request, COST, fits, again=again) as (charge, _):
                    note(step="charged", question=question, charge=charge.id)
                    answer = charge.answer
                    if answer is None:
                        time.sleep(random.random() * 0.004)
                        answer = ledger.store(charge, {"noise": secrets.randbits(64)})
            except AnswerLost:
                note(step="lost", question=question)
                continue
            except BudgetExhausted:
                note(step="refused", question=question)
            else:
                note(step="shown", question=question, charge=charge.id, noise=answer["noise"])
            break


def read_notes(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main(*sys.argv[1:])
