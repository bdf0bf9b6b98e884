"""Whatever is done to a ledger, in whatever order: it says what a plain dictionary says."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from data.errors import AnswerLost, BudgetExhausted, ContentRefused, LedgerError
from data.ledger import Ledger, Question
from tests.data.ledger.charging import COST, charged

EPSILON, TOTAL = 1 / 4, 1.0
NAMES, CONTENTS, BOUNDS = ("one", "two"), ("2-a", "2-b"), (1, 2, 3)


def fits(previous, new):
    spent = sum(charge.epsilon for charge in previous)
    if spent + new.epsilon > TOTAL:
        raise BudgetExhausted("spent")


class Ledgers(RuleBasedStateMachine):
    """A ledger, and what it must know: charges of each name, answers, the content that is bound to a name."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.home, self.heads = self.folder / "home", []
        self.ledger = Ledger(self.home)
        self.opened, self.charged, self.answers, self.pending = set(), {}, {}, {}
        self.contents, self.reserved, self.backup = {}, set(), None
        self.n_added = 0  # a reserve that was given back stays in the chain

    @rule(name=st.sampled_from(NAMES))
    def open(self, name):
        self.ledger.open_dataset(name, TOTAL, 0.0)
        self.opened.add(name)

    @rule(
        **{"name": st.sampled_from(NAMES), "content": st.sampled_from(CONTENTS)},
        **{"bound": st.sampled_from(BOUNDS), "again": st.booleans(), "new": st.booleans()},
    )
    def charge(self, name, content, bound, again, new):
        self.ask(Question(name, content, "dp_mean", {"bound": bound}, EPSILON, 0.0), again, new)

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), again=st.booleans())
    def charge_what_is_pending(self, data, again):
        self.ask(self.pending[data.draw(st.sampled_from(sorted(self.pending)))].question, again, False)

    def ask(self, question, again, new):
        name, content = question.dataset, question.content
        mine = [key for key in self.charged if self.charged[key] == name]
        earlier = [key for key in mine if key.startswith(question.id)]
        try:
            charge = charged(self.ledger, question, COST, fits, again=again, allow_new_content=new)
        except AnswerLost:
            assert earlier[-1] not in self.answers
            assert not again
        except BudgetExhausted:
            assert len(mine) == TOTAL / EPSILON
        except ContentRefused:
            others = self.bound.get(content, name) != name
            assert others or (name in self.bound.values() and content not in self.bound and not new)
        except LedgerError:
            assert name not in self.opened
        else:
            if charge.answer is not None:
                assert charge.answer == self.answers[charge.id]
                return
            self.pending[charge.id] = charge
            if charge.id in self.reserved:
                self.reserved.remove(charge.id)
                return
            assert charge.id not in self.charged
            assert not earlier or again
            self.add([charge.id], name, content, new)

    @property
    def bound(self):
        """The name of each content that has a charge."""
        return {self.contents[charge]: name for charge, name in self.charged.items()}

    def add(self, charges, name, content, new=False):
        """Note charges: their content has no other name, and their name no other content unless allowed."""
        assert self.bound.get(content, name) == name
        assert content in self.bound or name not in self.bound.values() or new
        self.n_added += len(charges)
        self.charged |= dict.fromkeys(charges, name)
        self.contents |= dict.fromkeys(charges, content)

    @rule(
        **{"name": st.sampled_from(NAMES), "content": st.sampled_from(CONTENTS)},
        bounds=st.sets(st.sampled_from(BOUNDS), min_size=1),
    )
    def reserve(self, name, content, bounds):
        """Reserve some questions: all that have no charge, or none."""
        questions = [Question(name, content, "dp_mean", {"bound": each}, EPSILON, 0.0) for each in bounds]
        fresh = [each for each in questions if not any(key.startswith(each.id) for key in self.charged)]
        try:
            account = self.ledger.reserve(name, [(each, COST) for each in questions], fits)
        except (BudgetExhausted, LedgerError):
            assert fresh
        else:
            added = [each.id for each in account.charges if each.id not in self.charged]
            assert len(added) == len(fresh)
            self.reserved |= set(added)
            if fresh:
                self.add(added, name, content)

    @precondition(lambda self: self.charged)
    @rule(data=st.data())
    def give_back(self, data):
        """Give a reserve back; what was begun stays spent."""
        charge = data.draw(st.sampled_from(sorted(self.charged)))
        is_reserved = charge in self.reserved
        try:
            self.ledger.reserve(self.charged[charge], [], fits, give_back=[charge])
        except LedgerError:
            assert not is_reserved
        else:
            assert is_reserved
            self.reserved.remove(charge)
            del self.charged[charge]

    @precondition(lambda self: self.pending)
    @rule(answer=st.floats(allow_nan=False, allow_infinity=False), data=st.data())
    def store(self, answer, data):
        charge = self.pending.pop(data.draw(st.sampled_from(sorted(self.pending))))
        last = [key for key in self.charged if key.rpartition("-")[0] == charge.question.id][-1]
        may_store = last == charge.id
        try:
            assert self.ledger.store(charge, {"estimate": answer}) == {"estimate": answer}
            self.answers[charge.id] = {"estimate": answer}
            assert may_store
        except LedgerError:  # another charge for the same question has its place
            assert not may_store

    @precondition(lambda self: self.opened)
    @rule()
    def back_up(self):
        self.ledger.backup(self.folder / "backup")
        self.backup = self.known()

    @precondition(lambda self: self.backup)
    @rule()
    def restore(self):
        try:
            self.ledger.restore(self.folder / "backup")
        except LedgerError:
            assert self.backup != self.known()
        else:
            assert self.backup == self.known()

    def known(self):
        return dict(self.charged), dict(self.answers), set(self.opened), set(self.reserved), self.n_added

    @invariant()
    def nothing_is_forgotten(self):
        for name in self.opened:
            charges = self.ledger.account(name).charges
            assert [charge.id for charge in charges] == [k for k, of in self.charged.items() if of == name]
            assert sum(charge.epsilon for charge in charges) <= TOTAL
            answers = {key: answer for key, answer in self.answers.items() if self.charged[key] == name}
            assert {c.id: c.answer for c in charges if c.answer is not None} == answers
        # Each head is noted, and compared once, when the ledger may have gone on.
        report = self.ledger.verify(*self.heads[-3:][:1])
        assert report.ok
        self.heads.append(report.head)

    def teardown(self):
        shutil.rmtree(self.folder)


TestLedgers = Ledgers.TestCase
# Steps write to the disk, so that a shorter example would take minutes to find.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
TestLedgers.settings = settings(max_examples=15, stateful_step_count=25, deadline=None, phases=PHASES)
