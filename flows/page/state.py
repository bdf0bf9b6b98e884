"""The state that the steps of one window share: its files, their changes and the last forecast."""

from collections.abc import Iterator
from contextlib import contextmanager

from shiny import reactive, ui

from data.errors import DataError
from data.store.folders import sha256_file
from dpalgos import InputError
from flows.page.files import PageFiles
from flows.page.forecasts import plan_of
from flows.page.releasing import Releasing
from tasks.errors import SpecError
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.prepare import PreparedPlan

REFUSED = (SpecError, DataError, InputError)


class State:
    """One window of the page."""

    def __init__(self, files: PageFiles, releasing: Releasing) -> None:
        self.files, self.releasing = files, releasing
        self.changed: reactive.Value[int] = reactive.value(0)  # each edit of the files
        self.charged: reactive.Value[int] = reactive.value(0)  # each change of the ledger
        self.prepared: reactive.Value[tuple[str, PreparedPlan] | None] = reactive.value(None)

    @contextmanager
    def editing(self) -> Iterator[PageFiles]:
        """Edit the files and write them; tell the person what is refused."""
        try:
            yield self.files
            self.files.keep()
        except REFUSED as error:
            ui.notification_show(str(error), type="error", duration=None)
            return
        with reactive.isolate():
            self.changed.set(self.changed() + 1)

    @property
    def digest(self) -> str:
        """The digest of both files as they are now."""
        files = (self.files.study, self.files.plan)
        return "".join(sha256_file(each) for each in files if each.exists())

    def forecast(self) -> PreparedPlan | None:
        """Return the forecast of the plan; None if there is none of the files as they are now."""
        self.changed()
        found = self.prepared()
        return found[1] if found and found[0] == self.digest else None

    def plan(self) -> PlanFile | str:
        """Return the plan as its files state it, or what is missing in them."""
        self.changed()
        if not self.files.questions:
            return "Add a question first."
        try:
            return plan_of(self.files.plan)
        except REFUSED as error:
            return str(error)
