"""``dpcost league``: everybody's private regressions on public tables, as one page."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from data.store.folders import REPORTS, atomic_write, home
from flows.cli import options as given

_DEFAULT_MINUTES = 25.0  # the page and environments that exist take a few more


def league(
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="Only this table; may be repeated; none: attacks alone.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="What all fits and attacks may take.")
    ] = _DEFAULT_MINUTES,
    seed: given.Seed = None,
    merge: Annotated[
        list[Path] | None, typer.Option(help="results.json of other machines: merge, and measure nothing.")
    ] = None,
    out: given.Out = None,
) -> None:
    """Compare private regressions of many libraries on public tables, each in its own environment."""
    from flows.league.run import league as measured
    from flows.league.run import merged
    from flows.league.tables import declarations
    from flows.league.worker_process import all_methods
    from tasks.faults import SpecError

    folder = (out or REPORTS).resolve()
    if merge:
        results = merged([json.loads(path.read_bytes()) for path in merge])
    else:
        methods, tables = all_methods(), list(declarations())
        chosen = [one for one in methods if method is None or one.name in method]
        names = [name for name in tables if table is None or name in table]
        for what, asked, known in (
            ("method", method, [one.name for one in methods]),
            ("table", table, tables),
        ):
            unknown = [each for each in asked or [] if each not in known and each != "none"]
            if unknown:
                raise SpecError(f"--{what} must be one of {', '.join(known)}, got {unknown[0]!r}")
        results = measured(chosen, names, minutes=minutes, folder=home() / "league", seed=seed or 0)
    typer.echo(str(written(results, folder, seed or 0)))


def written(results: dict[str, Any], folder: Path, seed: int) -> Path:
    """Write the page, its results and the index; return the page."""
    from importlib.metadata import version

    from reports.pages.league import NAME, render_league
    from tasks.report.manifest import now
    from tasks.report.write import write_index

    command = f"dpcost league --seed {seed}"
    files = render_league(results, command=command, finished=now(), version=f"dpcost {version('dpcost')}")
    for name, content in files.items():
        atomic_write(folder / NAME / name, content)
    write_index(folder)
    return folder / NAME / "report.html"
