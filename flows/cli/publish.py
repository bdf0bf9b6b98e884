"""The commands that bring results to others: a figure for a paper, a static site, the league's page."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from data.store.folders import REPORTS, atomic_write, home
from data.store.output_files import check_outputs, claim_report, files_named_by
from flows.cli import options as given
from flows.cli.options import whole_number
from flows.progress import say


def _inches(text: str) -> float:
    parts = re.fullmatch(r"([\d.]+) ?(in|cm|mm)", text)
    try:
        width = float(parts[1]) / {"in": 1.0, "cm": 2.54, "mm": 25.4}[parts[2]] if parts else 0.0
    except ValueError:
        width = 0.0
    if not 1 <= width <= 30:
        raise typer.BadParameter(f"must be 1in to 30in, or in cm or mm, got {text!r}; pass e.g. 3.3in")
    return width


def _format(text: str) -> str:
    from reports.charts.figure import FORMATS

    if text not in FORMATS:
        raise typer.BadParameter(f"must be one of {', '.join(FORMATS)}, got {text!r}")
    return text


def figure(
    study: Annotated[
        str,
        typer.Argument(help="A study's name, one's own if it has a report, or the path of its file."),
    ],
    metric: Annotated[str, typer.Option(help="The headline's by default.")] = "",
    panel: Annotated[str, typer.Option(help="The headline's by default.")] = "",
    axis: Annotated[str, typer.Option(help="n, d, s, steps or epsilon; the page's by default.")] = "",
    epsilon: Annotated[float | None, typer.Option(help="The headline's by default.")] = None,
    delta: Annotated[str, typer.Option(help="The rule for δ, e.g. 1/n^2; the headline's by default.")] = "",
    lines: Annotated[
        str, typer.Option(help="Names at the ends of lines, between semicolons; the page's by default.")
    ] = "",
    form: Annotated[str, typer.Option("--format", parser=_format, help="pdf, svg or png.")] = "pdf",
    width: Annotated[
        float, typer.Option(parser=_inches, help="Of the whole figure: 3.3in, 8.4cm.")
    ] = "6.5in",  # type: ignore[assignment]
    out: Annotated[Path | None, typer.Option(help="File; STUDY.FORMAT by default.")] = None,
    reports: Annotated[
        Path | None, typer.Option(help="Folder of the reports; reports/out by default.")
    ] = None,
    plugins: given.Plugins = None,
    force: given.Force = False,
) -> None:
    """Write the chart of a study's page for a paper; its data go to a file that ends in -figure.csv."""
    given.use_plugins(plugins or [])
    from flows.studies.results import file_of_report, stored_page
    from reports.charts.figure import FigureChoice, FigureError, draw_figure
    from tasks.errors import SpecError

    study = file_of_report(study, reports)
    page, results = stored_page(study, reports)
    path = out or Path(f"{page.name}.{form}")
    data_path = path.with_name(f"{path.stem}-figure.csv")
    folder = (reports or REPORTS) / page.name
    choice = FigureChoice(
        metric=metric,
        panel=panel,
        axis=axis,
        epsilon=epsilon,
        delta_rule=delta,
        lines=tuple(name.strip() for name in lines.split(";") if name.strip()),
        format=form,  # type: ignore[arg-type]
        width=width,
    )
    stored = [folder / "results.parquet", folder / "manifest.json"]
    inputs = [*stored, *(files_named_by(Path(study)) if study.endswith(".toml") else ())]
    check_outputs([path, data_path], inputs=inputs, force=force)
    try:
        drawn, data = draw_figure(results, page, choice)
    except FigureError as error:
        raise SpecError(str(error)) from None
    if page.warning:
        say(f"note: {page.warning}")
    atomic_write(path, drawn)
    atomic_write(data_path, data)
    typer.echo(f"{path}, {data_path}")


def publish(
    target: Annotated[str, typer.Argument(help="A folder, or an address such as s3://bucket/folder.")],
    force: given.Force = False,
    out: given.Out = None,
) -> None:
    """Copy the pages, tables and manifests of finished studies; never those of one's own table."""
    from tasks.report.publish import publish as copy_reports

    index, studies, private = copy_reports(target, Path(out or REPORTS), force=force)
    if private:
        say(f"note: left out, since they are about a table of one's own: {', '.join(private)}")
    typer.echo(f"{index}: {', '.join(studies)}")


def table(
    records: Annotated[
        list[Path], typer.Argument(help="release.json of one or several releases, or their folders.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File: .txt, .md, .csv, .tex, .html or .docx; the terminal by default."),
    ] = None,
    methods: Annotated[
        bool, typer.Option("--methods", help="Print a paragraph for a methods section instead.")
    ] = False,
    force: given.Force = False,
) -> None:
    """Set the coefficients of releases into a table for publication, several side by side."""
    from tasks.report.coefficients import NO_METHODS, read_record, table_format, text_of, write_table

    if out:
        table_format(out, "--out")
    check_outputs([out], inputs=records, force=force)
    contents = [read_record(record) for record in records]
    if methods:
        typer.echo("\n\n".join(each["release"].get("methods", NO_METHODS) for each in contents))
        return
    if out:
        write_table(contents, out)
    typer.echo(str(out) if out else text_of(contents), nl=bool(out))


_LEAGUE_MINUTES = 25.0  # the page and environments that exist take a few more


def league(
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="Only this table; may be repeated; none: attacks alone.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="What all fits and attacks may take.")
    ] = _LEAGUE_MINUTES,
    seed: Annotated[int, typer.Option(parser=whole_number(), help="Seed of fits and attacks.")] = 0,
    merge: Annotated[
        list[Path] | None, typer.Option(help="results.json of other machines: merge, and measure nothing.")
    ] = None,
    out: given.Out = None,
) -> None:
    """Compare private regressions and means of many libraries on public tables."""
    from flows.launch import check_index
    from flows.league.run import league as measured
    from flows.league.run import merged
    from flows.league.stored import read_league
    from reports.pages.league import NAME

    folder = Path(out or REPORTS).resolve()
    check_index(folder)
    claim_report(folder / NAME)
    check_outputs([folder / NAME / "results.json"], inputs=merge or (), force=True)
    if merge:
        results = merged([read_league(path) for path in merge])
        command = shlex.join(
            ["dpcost", "league", *(part for path in merge for part in ("--merge", str(path)))]
        )
    else:
        chosen, names = _chosen(method, table)
        results = measured(chosen, names, minutes=minutes, folder=home() / "league", seed=seed)
        parts = [part for each in method or () for part in ("--method", each)]
        parts += [part for each in table or () for part in ("--table", each)]
        command = shlex.join(["dpcost", "league", *parts, "--minutes", f"{minutes:g}", "--seed", str(seed)])
    page = _written(results, folder, command)
    typer.echo(str(page))


def _chosen(method: list[str] | None, table: list[str] | None) -> tuple[list[Any], list[str]]:
    """Return the methods and the names of the tables that the options choose, all by default."""
    from flows.league.tables import declarations
    from flows.league.worker_process import all_methods
    from tasks.errors import SpecError

    methods, tables = all_methods(), list(declarations())
    for what, asked, known in (
        ("method", method, [one.name for one in methods]),
        ("table", table, tables),
    ):
        unknown = [each for each in asked or [] if each not in known and each != "none"]
        if unknown:
            raise SpecError(f"--{what} must be one of {', '.join(known)}, got {unknown[0]!r}")
    chosen = [one for one in methods if method is None or one.name in method]
    return chosen, [name for name in tables if table is None or name in table]


def _written(results: dict[str, Any], folder: Path, command: str) -> Path:
    """Write the page, its results and the index; return the page."""
    from importlib.metadata import version

    from reports.pages.league import NAME, render_league
    from tasks.report.manifest import now
    from tasks.report.write import write_index

    methods, tables = _chosen(None, None)
    complete = {one.name for one in methods} <= results["methods"].keys()
    complete = complete and set(tables) <= results["tables"].keys()
    files = render_league(
        results, command=command, complete=complete, finished=now(), version=f"dpcost {version('dpcost')}"
    )
    for name, content in files.items():
        atomic_write(folder / NAME / name, content)
    write_index(folder)
    return folder / NAME / "report.html"
