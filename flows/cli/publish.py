"""The commands that bring results to others: a figure or a table for a paper, a static site."""

import re
from pathlib import Path
from typing import Annotated

import typer

from data.store.folders import REPORTS, atomic_write
from data.store.output_files import check_outputs, files_named_by
from flows.cli import options as given
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


def submodel(
    record: Annotated[Path, typer.Argument(help="release.json of a release with intervals, or its folder.")],
    formula: Annotated[str, typer.Option(help="The nested model, as 'cost ~ age + C(region)'.")],
    test: Annotated[
        list[str] | None,
        typer.Option(help="A hypothesis, as 'age - 10 * smoker = 0'; several times if wanted."),
    ] = None,
) -> None:
    """Answer a model nested in a release, and tests of it, from its record: it spends nothing."""
    from dpalgos.formula.nested import submodel_by_formula
    from tasks.report.coefficients import nested_record, read_record, released_model, text_of

    content = read_record(record)
    typer.echo(text_of([nested_record(content, formula)]), nl=False)
    model = submodel_by_formula(released_model(content), formula)
    for hypothesis in test or ():
        typer.echo(f"\n{model.t_test(hypothesis)}")


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
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="Models nested in the release, as 'y ~ a' 'y ~ a + b': a column for each, at no cost."
        ),
    ] = None,
    force: given.Force = False,
) -> None:
    """Set the coefficients of releases into a table for publication, several side by side."""
    from tasks.report.coefficients import (
        NO_METHODS,
        nested_record,
        read_record,
        table_format,
        text_of,
        write_table,
    )

    if out:
        table_format(out, "--out")
    # Words after --models "y ~ a" are models, too, as a shell's user writes them.
    named = [each for each in records if not models or each.exists() or "~" not in str(each)]
    formulas = [*(models or ()), *(str(each) for each in records if each not in named)]
    check_outputs([out], inputs=named, force=force)
    contents = [read_record(record) for record in named]
    if models:
        contents = [nested_record(each, formula) for each in contents for formula in formulas]
    if methods:
        typer.echo("\n\n".join(each["release"].get("methods", NO_METHODS) for each in contents))
        return
    if out:
        write_table(contents, out)
    typer.echo(str(out) if out else text_of(contents), nl=bool(out))
