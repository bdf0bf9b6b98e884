"""Options that several commands share, and how a catalog is printed."""

import difflib
import json
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from tasks.limits import MAX_REPLICATES, MAX_WORKERS, PROFILES, Profile


def whole_number(least: int = 0, most: int | None = None) -> Any:
    allowed = f"a whole number of at least {least}" + (f" and at most {most:,}" if most else "")

    def parse(text: str) -> int:
        try:
            number = int(text)
            if least <= number and (most is None or number <= most):
                return number
        except ValueError:
            pass
        raise typer.BadParameter(f"must be {allowed}, got {text!r}; pass e.g. {max(least, 3)}")

    return parse


def _folder(text: str) -> Path:
    if not text or "\0" in text:
        raise typer.BadParameter(f"must be a folder, got {text!r}; leave it out for reports/out")
    return Path(text)


def _profile(text: str) -> str:
    if text in PROFILES:
        return text
    nearest = difflib.get_close_matches(text, PROFILES, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise typer.BadParameter(f"must be one of {', '.join(PROFILES)}, got {text!r}{hint}")


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
StudyArgument = Annotated[str, typer.Argument(help="A study's name, or the path of its file.")]
ProfileOption = Annotated[Profile, typer.Option(parser=_profile, help="One of smoke, standard, paper.")]
LastProfile = Annotated[str | None, typer.Option(parser=_profile, help="The last run's by default.")]
_REPS, _WORKERS = whole_number(1, MAX_REPLICATES), whole_number(1, MAX_WORKERS)
Reps = Annotated[
    int | None,
    typer.Option(parser=_REPS, help="Replicates per cell; as many as the profile says by default."),
]
Seed = Annotated[
    int | None, typer.Option(parser=whole_number(), help="All randomness of the run derives from it.")
]
Workers = Annotated[
    int | None,
    typer.Option(parser=_WORKERS, help="Blocks of work at a time; the number of cores by default."),
]
Epsilon = Annotated[float, typer.Option(help="Privacy loss ε, positive.")]
Engine = Annotated[str, typer.Option(help="local, dask, or dask://HOST:PORT.")]
Out = Annotated[
    Path | None, typer.Option(parser=_folder, help="Folder of the reports; reports/out by default.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files that are there and that this command did not write.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--with", help="Python file with an estimator, dataset or kind of problem of your own."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpcost {version('dpcost')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
]


def help_or_version(context: typer.Context, version: Version = False) -> None:
    """Print the version, or the help where no command is given."""
    help_without_command(context)


def help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands where none of them is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def print_rows(rows: list[dict[str, Any]], as_json: bool, line: Callable[[dict[str, Any]], str]) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    elif rows:
        typer.echo("\n".join(map(line, rows)))


def use_plugins(files: list[Path], engine: str = "local") -> None:
    """Name plugins from outside for this process, before anything that looks for plugins is imported."""
    if not files:
        return
    from dpalgos.plugins import FILES, outside_plugins
    from tasks.faults import SpecError

    if engine != "local":
        raise SpecError(
            f"--with goes with --engine local, got {engine}: other processes do not have the file; install "
            "it there as a package with the entry point dpcost.plugins"
        )
    for file in files:
        if file.suffix != ".py" or not file.is_file():
            raise SpecError(f"--with must be a Python file, got {str(file)!r}; correct the path")
    os.environ[FILES] = os.pathsep.join(str(file.resolve()) for file in files)
    if broken := outside_plugins().broken:
        raise SpecError(f"--with cannot use {next(iter(broken.values()))}; mend that file")
