"""Options that several commands share, and the printing of catalogs."""

import json
import os
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from data.errors import nearest_name
from reports.visible import visible
from tasks import SpecError
from tasks.run_options import PROFILES, RunOptions

DEFAULTS = RunOptions()


def parser_of(kind: Any) -> Callable[[str], Any]:
    """Return a parser that validates text as pydantic validates a type, with our error message."""

    def parse(text: str) -> Any:
        try:
            return TypeAdapter(kind).validate_python(text)
        except ValidationError as error:
            allowed = error.errors()[0]["msg"].partition(" should ")[2].partition(", unable")[0]
            hint = nearest_name(text, [each for each in get_args(get_args(kind)[0]) if isinstance(each, str)])
            raise typer.BadParameter(f"must {allowed}, got {text!r}{hint}") from None

    return parse


def _number(text: str | float) -> float:
    """Read a number, or a default; one with a decimal comma, or marks between digits, might mean another."""
    try:
        return float("" if "_" in str(text) else text)
    except ValueError:
        raise typer.BadParameter(f"must be a number with a decimal point, e.g. 0.5, got {text!r}") from None


def option(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    if metavar == "NUMBER":
        settings["parser"] = _number
    elif "min" in settings:  # typer shows the range in the help; its own message lacks the value
        limits = Field(ge=settings["min"], le=settings.get("max"))
        settings["parser"] = parser_of(Annotated[int, limits])
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def flag(name: str, text: str) -> Any:
    return typer.Option(name, help=text)


def argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text)


def of_run(name: str, metavar: str = "") -> Any:
    """Return an option of a run as typer reads it."""
    field = RunOptions.model_fields[name]
    text = str(field.description)
    if field.annotation is bool:
        return flag(f"--{name}", text)
    return option(metavar, text, parser=parser_of(Annotated[field.annotation, Field(), *field.metadata]))


ProfileOption = Annotated[Any, of_run("profile", f"[{'|'.join(PROFILES)}]")]
Reps = Annotated[Any, of_run("reps", "INTEGER")]
Seed = Annotated[Any, of_run("seed", "INTEGER")]
Workers = Annotated[Any, of_run("workers", "INTEGER")]
Out = Annotated[Any, of_run("out", "FOLDER")]
Offline = Annotated[bool, of_run("offline")]
AsJson = Annotated[bool, flag("--json", "Print one JSON document and nothing else.")]
StudyArgument = Annotated[str, argument("STUDY", "Study name, or path of a study file.")]
Epsilon = Annotated[float, option("NUMBER", "ε, above 0.")]
Engine = Annotated[
    str,
    option(
        "[local|dask|dask://HOST:PORT]",
        "Where blocks run: processes of this machine, Dask processes, or a Dask cluster.",
    ),
]
Force = Annotated[bool, flag("--force", "Overwrite existing files.")]
Yes = Annotated[bool, flag("--yes", "Skip the confirmation prompt.")]
Plugins = Annotated[
    list[Path] | None,
    option("FILE", "Python file with your own estimator, dataset or problem. Repeatable.", "--with"),
]


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"dpcost {version('dpcost')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
]


def help_or_version(context: typer.Context, version: Version = False) -> None:
    """Print the version, or the help if no command is given."""
    help_without_command(context)


def help_without_command(context: typer.Context) -> None:
    """Print the help of a group if none of its commands is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def show(content: Any, text: str | Iterable[str], as_json: bool) -> None:
    """Print a result, as one JSON document or as text."""
    if as_json:
        text = json.dumps(to_jsonable_python(content, inf_nan_mode="null"), indent=1)
    elif not isinstance(text, str):
        text = "\n".join(text)
    if text:
        echo(text)


def echo(text: str, *, nl: bool = True) -> None:
    """Print text to standard output; control characters of names, queries and records are escaped."""
    typer.echo(visible(text), nl=nl)


def rendered(template: str, **context: Any) -> str:
    """Return a text of the folder templates; the filter ``fmt`` writes a value by a format of Python."""
    from jinja2 import Environment, FileSystemLoader

    loader = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=loader, trim_blocks=True, autoescape=False)
    environment.filters |= {"fmt": format, "repr": repr, "toml": toml}
    return environment.get_template(template).render(context).rstrip("\n")


def toml(text: str) -> str:
    """Return a text as TOML writes it; "" stays empty."""
    return text and json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def use_plugins(files: list[Path], engine: str = "local") -> None:
    """Register plugin files for this process, before any module that looks for plugins is imported."""
    if not files:
        return
    from dpalgos.plugins import FILES, outside_plugins

    if engine != "local":
        raise SpecError(
            f"--with needs --engine local, got {engine}: the other machines do not have the file; install it "
            "there as a package with the entry point dpcost.plugins"
        )
    for file in files:
        if file.suffix != ".py" or not file.is_file():
            raise SpecError(f"--with must be a Python file, got {str(file)!r}; correct the path")
    os.environ[FILES] = os.pathsep.join(str(file.resolve()) for file in files)
    if broken := outside_plugins().broken:
        raise SpecError(f"--with cannot use {next(iter(broken.values()))}; correct that file")
