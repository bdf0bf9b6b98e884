"""The reference of the command line, from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from flows.cli.main import app


def pages() -> dict[str, str]:
    return {"commands.txt": "\n".join(_section(name, command) for name, command in commands())}


def commands(command: Any = None, name: str = "dpcost") -> Iterator[tuple[str, Any]]:
    """Yield the name and the command of each command, those of groups included."""
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        if not inner.hidden:
            yield from commands(inner, f"{name} {each}")


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=name)
    records = filter(None, (each.get_help_record(context) for each in command.params))
    rows = [(option.partition(" <")[0], text) for option, text in records]  # an argument's type is left out
    listed = [f"| `{_cell(option)}` | {_cell(text)} |" for option, text in rows]
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    table = ["| argument or option | meaning |", "|---|---|", *listed] if listed else []
    return "\n".join([f"## {name}", "", f"`{usage}`", "", command.help, "", *table, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
