"""The commands that bring results to others: a figure or a table for a paper, a static site."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from data.store.folders import REPORTS, atomic_write
from data.store.output_files import check_outputs, files_named_by
from flows.cli import options as given
from flows.progress import say

_FORMATS = given.parser_of(Literal["pdf", "svg", "png"])


def _inches(text: str) -> float:
    parts = re.fullmatch(r"([\d.]+) ?(in|cm|mm)", text)
    try:
        width = float(parts[1]) / {"in": 1.0, "cm": 2.54, "mm": 25.4}[parts[2]] if parts else 0.0
    except ValueError:
        width = 0.0
    if not 1 <= width <= 30:
        raise typer.BadParameter(f"must be 1in to 30in, or in cm or mm, got {text!r}; pass e.g. 3.3in")
    return width


def figure(
    study: Annotated[str, given.argument("STUDY", "Study name, or path of a study file; it needs a report.")],
    metric: Annotated[str, given.option("NAME", "Metric; default: that of the headline.")] = "",
    panel: Annotated[str, given.option("NAME", "Panel; default: that of the headline.")] = "",
    axis: Annotated[
        str, given.option("[n|d|s|steps|epsilon]", "Horizontal axis; default: that of the page.")
    ] = "",
    epsilon: Annotated[float | None, given.option("NUMBER", "ε; default: that of the headline.")] = None,
    delta: Annotated[
        str, given.option("RULE", "Rule for δ, e.g. 1/n^2; default: that of the headline.")
    ] = "",
    lines: Annotated[
        str, given.option("NAMES", "Labels of lines, separated by semicolons; default: as on the page.")
    ] = "",
    form: Annotated[Any, given.option("[pdf|svg|png]", "File format.", "--format", parser=_FORMATS)] = "pdf",
    width: Annotated[
        float, given.option("LENGTH", "Width of the figure, e.g. 3.3in or 8.4cm.", parser=_inches)
    ] = "6.5in",  # type: ignore[assignment]
    out: Annotated[Path | None, given.option("FILE", "Output file; default: STUDY.FORMAT.")] = None,
    reports: Annotated[Path | None, given.option("FOLDER", "Report folder; default: reports/out.")] = None,
    plugins: given.Plugins = None,
    force: given.Force = False,
) -> None:
    """Write the chart of a study's page for a paper; its data go to a file with suffix -figure.csv."""
    given.use_plugins(plugins or [])
    from flows.studies.results import stored_page
    from reports.charts.figure import FigureChoice, FigureError, draw_figure
    from tasks.errors import SpecError

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
        format=form,
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
    target: Annotated[str, given.argument("TARGET", "Folder, or address such as s3://bucket/folder.")],
    force: given.Force = False,
    out: given.Out = None,
) -> None:
    """Copy the pages, tables and manifests of finished studies; never those of your own tables."""
    from tasks.report.publish import publish as copy_reports

    index, studies, private = copy_reports(target, Path(out or REPORTS), force=force)
    if private:
        say(f"note: left out, because they are about your own tables: {', '.join(private)}")
    typer.echo(f"{index}: {', '.join(studies)}")


def submodel(
    record: Annotated[
        Path, given.argument("RECORD", "release.json of a release with intervals, or its folder.")
    ],
    formula: Annotated[str, given.option("FORMULA", "Nested model, e.g. 'cost ~ age + C(region)'.")],
    test: Annotated[
        list[str] | None, given.option("HYPOTHESIS", "Hypothesis, e.g. 'age - 10 * smoker = 0'. Repeatable.")
    ] = None,
) -> None:
    """Compute a model nested in a release, and tests, from its record; spends no ε."""
    from dpalgos.formula.nested import submodel_by_formula
    from tasks.report.coefficients import nested_record, read_record, released_model, text_of

    content = read_record(record)
    typer.echo(text_of([nested_record(content, formula)]), nl=False)
    model = submodel_by_formula(released_model(content), formula)
    for hypothesis in test or ():
        typer.echo(f"\n{model.t_test(hypothesis)}")


def table(
    records: Annotated[
        list[Path], given.argument("RECORD", "release.json of one or several releases, or their folders.")
    ],
    out: Annotated[
        Path | None,
        given.option("FILE", "Output file: .txt, .md, .csv, .tex, .html or .docx; default: the terminal."),
    ] = None,
    methods: Annotated[bool, given.flag("--methods", "Print a paragraph for a methods section.")] = False,
    models: Annotated[
        list[str] | None,
        given.option(
            "FORMULA...",
            "Models nested in the release, e.g. 'y ~ a' 'y ~ a + b'; one column each, spends no ε.",
        ),
    ] = None,
    by: Annotated[
        str, given.option("CATEGORY", "Category of the formulas; a row of means for each level, spends no ε.")
    ] = "",
    force: given.Force = False,
) -> None:
    """Write the coefficients of releases side by side as a table for publication."""
    from tasks.release.methods import methods_of
    from tasks.report.coefficients import (
        nested_record,
        read_record,
        record_by_group,
        table_format,
        text_of,
        write_table,
    )

    if out:
        table_format(out, "--out")
    # Words after --models "y ~ a" are models, too, as a shell's user writes them.
    existing = [each for each in records if not models or each.exists() or "~" not in str(each)]
    formulas = [*(models or ()), *(str(each) for each in records if each not in existing)]
    check_outputs([out], inputs=existing, force=force)
    contents = [read_record(record) for record in existing]
    if models:
        contents = [nested_record(each, formula) for each in contents for formula in formulas]
    if by:
        contents = [record_by_group(each, by) for each in contents]
    if methods:
        typer.echo(methods_of(contents))
        return
    if out:
        write_table(contents, out)
    typer.echo(str(out) if out else text_of(contents), nl=bool(out))
