"""Questions to the person at the terminal: whether to charge, and whether a query may run."""

import select
import sys
from pathlib import Path

import typer

from data.tables.queries import Query, confirm, is_confirmed
from data.tables.sources import Source
from flows.progress import say
from reports.visible import visible
from tasks.errors import SpecError

_SECONDS_FOR_AN_ANSWER = 1.0  # that is piped in


def agrees(question: str, refusal: str) -> bool:
    """Ask at a terminal or read the reply from a pipe; refuse if there is neither."""
    try:
        if sys.stdin.isatty() or select.select([sys.stdin], [], [], _SECONDS_FOR_AN_ANSWER)[0]:
            return typer.confirm(visible(question), err=True)
    except (typer.Abort, OSError, ValueError):  # the end of what is piped in, or nothing to read from
        pass
    raise SpecError(refusal)


def agrees_to_charge(question: str) -> bool:
    return agrees(
        question, "nothing was charged: there is no terminal for the confirmation; pass --yes to skip it"
    )


def confirm_typed_query(source: Source) -> None:
    """Note that the person has written a query into the command."""
    if isinstance(source, Query):
        confirm(source)


def may_run(source: Source) -> bool:
    """Return whether a source is no query, or one that was confirmed in this home."""
    return not isinstance(source, Query) or is_confirmed(source)


def confirm_query_of(file: Path, source: Source) -> None:
    """Show a query of a file before it runs for the first time in this home, and ask whether it may."""
    if may_run(source):
        return
    assert isinstance(source, Query)
    say(f"{file.name} runs this query in the database {source.place}, as your user:\n  {source.text}")
    refusal = f"{source} of {file.name} was not run, since nobody confirmed it, got {source.text!r}"
    if not agrees("may it run, now and later?", f"{refusal}; run dpcost check {file.name} in a terminal"):
        raise SpecError(f"{refusal}; correct the file, or get it from somebody whom you trust")
    confirm(source)
