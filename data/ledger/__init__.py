"""The durable record of privacy charges: each request with its dataset, cost and result.

Three guarantees:

1. A charge is committed to the disk before the caller may draw noise. A process that is killed in between has
   spent budget and shown nothing.
2. The process that makes a release holds the lock of its dataset from charge to result. Two processes at once
   cannot overspend. If a process with the lock sees a charge without a result, that result is lost.
3. A result is stored once and replayed afterwards: the same question costs nothing again.

There are two tables: ``budgets``, and ``charges`` with their results. Each charge carries the hash of the one
before. The tables are in ``ledger.sqlite`` in ``DPCOST_HOME`` or, with a URL in ``DPCOST_LEDGER_URL``, in a
PostgreSQL database that several machines may share. How privacy losses compose is not known here: the caller
brings that arithmetic.

Limits of the ledger:

- It cannot notice that ledger and key were both deleted, or that an older copy of everything was restored. If
  you note the head that `verify` prints and pass it to a later `verify`, that notices it.
- It does not know charges in a copy of this home.
- It cannot stop a person who may write to it.
- It cannot know that altered data come from data it has seen (see `Fingerprinter`).

>>> ledger = open_ledger()
>>> ledger.open_dataset("patients", epsilon=1.0, delta=1e-6)
>>> reader = ledger.fingerprinter(ledger.account("patients").contents, "patients", read={"age": ()})
>>> for batch in table.to_batches():
...     reader.add(batch)
>>> content, exact = reader.fingerprint(), reader.exact()
>>> question = Question("patients", content, "dp_mean", {"value_bound": 2.0}, 0.1, 1e-7, exact)
>>> with ledger.answering(question, PrivacyCost(rho=0.001), require_room) as (charge, account):
...     answer = charge.answer or ledger.store(charge, {"estimate": draw()})
"""

from data.ledger.book import VerifyReport
from data.ledger.charges import Account, Charge, PrivacyCost, Question, TotalBudget
from data.ledger.content import Fingerprinter
from data.ledger.ledger import Ledger, open_ledger

__all__ = [
    "Account",
    "Charge",
    "Fingerprinter",
    "Ledger",
    "PrivacyCost",
    "Question",
    "TotalBudget",
    "VerifyReport",
    "open_ledger",
]
