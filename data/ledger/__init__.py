"""The durable record of privacy charges: each request, the dataset it was made of, its cost and its answer.

Three promises. (1) A charge is committed to the disk before the caller may draw noise, so a process that is
killed in between has spent budget and shown nothing. (2) Whoever answers about a dataset holds its lock from
charge to answer, so that two at once cannot overspend, and a charge without an answer that is seen under the
lock has lost it. (3) An answer is stored once and replayed ever after: the same question costs nothing again.

There are two tables: ``budgets``, and ``charges`` with their answers, in which each charge carries the hash
of the one before. They lie in ``ledger.sqlite`` in ``DPCOST_HOME`` or, with a URL in ``DPCOST_LEDGER_URL``,
in a PostgreSQL database that several machines may share. How privacy losses compose is not known here: the
caller brings that arithmetic.

What it cannot do: see that ledger and key were both deleted, or an older copy of all of it put back (note the
head that `verify` prints, and hand it to a later `verify`, which then can); know what was charged in a copy
of this home; stop a person who may write to it; or know that altered data stem from data it has seen (see
`Fingerprinter`).

>>> ledger = open_ledger()
>>> ledger.open_dataset("patients", epsilon=1.0, delta=1e-6)
>>> reader = ledger.fingerprinter(ledger.contents(), "patients", read={"age": ()})
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
