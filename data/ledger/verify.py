"""Verify the whole chain."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from data.ledger.chain import START, Chain, Entry, as_entry
from data.ledger.charges import canonical_json

MAX_PROBLEMS = 20
QUESTION = ("dataset", "content", "estimator", "parameters", "epsilon", "delta")


@dataclass(frozen=True)
class VerifyReport:
    """The result of verifying the chain.

    Attributes
    ----------
    ok : bool
        Whether nothing is wrong.
    n_entries, n_datasets, n_charges, n_releases : int
    head : str
        The last hash. Who keeps it elsewhere can later find out that an older ledger was put back.
    problems : tuple of str
        What is wrong, one sentence each; the first 20.
    """

    ok: bool
    n_entries: int = 0
    n_datasets: int = 0
    n_charges: int = 0
    n_releases: int = 0
    head: str = START
    problems: tuple[str, ...] = ()


def verify_chain(chain: Chain, noted: str | None) -> VerifyReport:
    """Recompute every hash and replay every entry of one state of the ledger.

    ``noted`` is a head from an earlier report, which the chain must still contain.
    """
    problems: list[str] = []
    history = _History()
    expected, last, seen_noted, n_stored = 1, START, noted in (None, START), 0
    for n_stored, row in enumerate(chain.stored_rows(), start=1):  # noqa: B007
        seq, previous, own = row[0], row[5], row[6]
        if seq != expected:
            problems.append(f"entry {expected} should come next, and entry {seq} does: removed or inserted")
        elif previous != last:
            problems.append(f"entry {seq} does not follow the one before it")
        if chain.is_genuine(row):
            problems += history.replay(as_entry(row))
        else:
            problems.append(
                f"entry {seq} was edited, moved or inserted: its hash is not that of what it says"
            )
        seen_noted = seen_noted or own == noted
        last = own
        expected = seq + 1 if isinstance(seq, int) else expected + 1
    if not chain.head_is_genuine:
        problems.append("the head was edited: its hash is not that of what it says")
    elif n_stored != chain.n_entries:
        problems.append(f"{chain.n_entries} entries were written, and {n_stored} are there")
    elif last != chain.head:
        problems.append("the last entry is not the one that was written last")
    if not seen_noted:
        problems.append(
            f"the head noted earlier, {noted}, is not in the chain: an older ledger, or another one"
        )
    return VerifyReport(
        not problems,
        n_stored,
        history.counts["open"],
        history.counts["charge"],
        history.counts["release"],
        last,
        tuple(problems[:MAX_PROBLEMS]),
    )


class _History:
    """The state after the entries so far; finds entries that break the ledger's rules."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._names: dict[str, str] = {}  # dataset of each content
        self._attempts: Counter[str] = Counter()
        self._charges: dict[str, str] = {}  # dataset of each charge
        self._opened: set[str] = set()
        self._released: set[str] = set()

    def replay(self, entry: Entry) -> list[str]:
        """Apply one more entry, and return its fault, if any."""
        self.counts[entry.kind] += 1
        check = getattr(self, f"_{entry.kind}", None)
        fault = check(entry) if check else "is of a kind that does not exist"
        return [f"entry {entry.seq} {fault}"] if fault else []

    def _open(self, entry: Entry) -> str:
        again = entry.dataset in self._opened
        self._opened.add(entry.dataset)
        return f"opens {entry.dataset!r} a second time" if again else ""

    def _bind(self, entry: Entry) -> str:
        if entry.dataset not in self._opened:
            return f"binds data to {entry.dataset!r}, which has no budget"
        if (name := self._names.setdefault(entry.subject, entry.dataset)) != entry.dataset:
            return f"binds data of {name!r} to {entry.dataset!r}"
        return ""

    def _charge(self, entry: Entry) -> str:
        question = {name: entry.body[name] for name in QUESTION}
        self._attempts[entry.subject] += 1
        self._charges[f"{entry.subject}-{self._attempts[entry.subject]}"] = entry.dataset
        if entry.body["attempt"] != self._attempts[entry.subject]:
            return "is counted wrongly among the charges for its request"
        if hashlib.sha256(canonical_json(question).encode()).hexdigest() != entry.subject:
            return "charges another request than it says"
        if self._names.get(question["content"]) != entry.dataset:
            return f"charges {entry.dataset!r} for data that are not bound to it"
        return ""

    def _release(self, entry: Entry) -> str:
        if self._charges.get(entry.subject) != entry.dataset:
            return "releases an answer that was not charged"
        if entry.subject in self._released:
            return "releases a second answer for one charge"
        self._released.add(entry.subject)
        request_id, _, attempt = entry.subject.rpartition("-")
        if int(attempt) != self._attempts[request_id]:
            return "releases an answer that was charged again since"
        return ""

    def _lost(self, entry: Entry) -> str:
        if self._charges.get(entry.subject) != entry.dataset or entry.subject in self._released:
            return "gives up an answer that was not charged, or is there"
        return ""
