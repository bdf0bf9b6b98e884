"""The state that the steps of one window share: its files, their changes and the last forecast."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

from shiny import reactive, ui

from data.errors import DataError, LedgerError
from data.ledger import Account
from dpalgos import InputError
from flows.page.releasing import Releasing
from tasks.errors import SpecError
from tasks.protocol.draft import Draft
from tasks.protocol.foreseen import Forecasts
from tasks.protocol.plan_file import PlanFile, digest_of, read_plan
from tasks.protocol.prepare import PreparedPlan
from tasks.release.spending import account_if_open

REFUSED = (SpecError, DataError, InputError)


class State:
    """One window of the page."""

    def __init__(self, files: Draft, releasing: Releasing, forecasts: Forecasts) -> None:
        self.files, self.releasing, self.forecasts = files, releasing, forecasts
        self.changed: reactive.Value[int] = reactive.value(0)  # each edit of the files
        self.charged: reactive.Value[int] = reactive.value(0)  # each change of the ledger
        self._plan: PlanFile | None = None  # as it was read last
        self.prepared: reactive.Value[PreparedPlan | None] = reactive.value(None)

    @contextmanager
    def editing(self) -> Iterator[Draft]:
        """Edit the files and write them; tell the person what is refused."""
        with telling():
            yield self.files
            self.files.keep()
            count(self.changed)

    @contextmanager
    def trying(self) -> Iterator[Draft]:
        """Edit the questions; a plan that is refused is explained and not kept."""
        before = deepcopy((self.files.questions, self.files.means_by))
        with self.editing() as files:
            yield files
        with reactive.isolate():
            refusal = self.plan()
        if isinstance(refusal, str):
            ui.notification_show(refusal, type="error", duration=None)
            with self.editing() as files:
                files.questions, files.means_by = before

    def forecast(self) -> PreparedPlan | None:
        """Return the forecast of the whole plan; None if there is none of the files as they are now."""
        self.changed()
        prepared = self.prepared()
        with suppress(OSError):
            if prepared and prepared.plan.digest == digest_of(self.files.plan, self.files.study):
                return prepared
        return None

    def plan(self) -> PlanFile | str:
        """Return the plan as its files state it, or what is missing in them."""
        self.changed()
        if not self.files.questions:
            return "Add a question first, in step 2."
        try:
            digest = digest_of(self.files.plan, self.files.study)
            if self._plan is None or self._plan.digest != digest:
                self._plan = read_plan(self.files.plan)
            return self._plan
        except (*REFUSED, OSError) as error:
            return str(error)

    def account(self) -> Account | None:
        """Return the dataset's budget and charges; None if no budget is open."""
        self.changed()
        self.charged()
        return account_if_open(self.files.dataset)


@contextmanager
def telling() -> Iterator[None]:
    """Tell the person what is refused."""
    try:
        yield
    except (*REFUSED, LedgerError) as error:
        ui.notification_show(str(error), type="error", duration=None)


def count(value: "reactive.Value[int]") -> None:
    with reactive.isolate():
        value.set(value() + 1)


def text_of(value: Any) -> str:
    """Return a field's text; it is empty before its field is drawn."""
    return str(value() or "").strip() if value.is_set() else ""
