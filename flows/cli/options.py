"""Options that several commands share, and how a catalog is printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def whole_number(text: str) -> int:
    """Return the whole number that was typed, or refuse it in words."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number, got {text!r}; pass e.g. 3") from None


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
ProfileOption = Annotated[str, typer.Option(help="One of smoke, standard, paper.")]
Reps = Annotated[
    int | None, typer.Option(parser=whole_number, help="Replicates per cell, instead of the profile's.")
]
Seed = Annotated[int | None, typer.Option(parser=whole_number, help="From which all randomness is derived.")]
Workers = Annotated[
    int | None, typer.Option(parser=whole_number, help="Blocks at a time; the number of cores by default.")
]
Engine = Annotated[str, typer.Option(help="local, dask, or dask://HOST:PORT.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the reports; reports/out by default.")]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]


def help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands where none of them is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def print_rows(rows: list[dict[str, Any]], as_json: bool, line: Callable[[dict[str, Any]], str]) -> None:
    """Print rows as one JSON list, or each as the line that `line` makes of it."""
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    elif rows:
        typer.echo("\n".join(map(line, rows)))
