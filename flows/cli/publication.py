"""``dpcost table``, ``submodel`` and ``figure``: what a paper shows of releases and studies."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from data.store.folders import REPORTS, atomic_write
from data.store.output_files import check_outputs, files_named_by
from flows.cli import options
from flows.progress import say
from tasks import SpecError

if TYPE_CHECKING:
    from dpalgos.survival.curves import SurvivalCurves

_FORMATS = options.parser_of(Literal["pdf", "svg", "png"])


def submodel(
    record: Annotated[
        Path, options.argument("RECORD", "release.json of a release with intervals, or its folder.")
    ],
    formula: Annotated[str, options.option("FORMULA", "Nested model, e.g. 'cost ~ age + C(region)'.")],
    test: Annotated[
        list[str] | None,
        options.option("HYPOTHESIS", "Hypothesis, e.g. 'age - 10 * smoker = 0'. Repeatable."),
    ] = None,
) -> None:
    """Compute a model nested in a release, and tests, from its record; spends no ε."""
    from dpalgos.formula.nested import submodel_by_formula
    from tasks.report.coefficients import nested_record, read_record, released_model, text_of

    content = read_record(record)
    options.echo(text_of([nested_record(content, formula)]), nl=False)
    model = submodel_by_formula(released_model(content), formula)
    for hypothesis in test or ():
        options.echo(f"\n{model.t_test(hypothesis)}")


def table(
    records: Annotated[
        list[Path], options.argument("RECORD", "release.json of one or several releases, or their folders.")
    ],
    out: Annotated[
        Path | None,
        options.option("FILE", "Output file: .txt, .md, .csv, .tex, .html or .docx; default: the terminal."),
    ] = None,
    methods: Annotated[bool, options.flag("--methods", "Print a paragraph for a methods section.")] = False,
    models: Annotated[
        list[str] | None,
        options.option(
            "FORMULA...",
            "Models nested in the release, e.g. 'y ~ a' 'y ~ a + b'; one column each, spends no ε.",
        ),
    ] = None,
    by: Annotated[
        str,
        options.option("CATEGORY", "Category of the formulas; a row of means for each level, spends no ε."),
    ] = "",
    force: options.Force = False,
) -> None:
    """Write the coefficients of releases side by side as a table for publication."""
    from tasks.release.record import methods_of
    from tasks.report import coefficients

    if out:
        coefficients.table_format(out, "--out")
    # Words after --models "y ~ a" are models, too, as a shell's user writes them.
    existing = [each for each in records if not models or each.exists() or "~" not in str(each)]
    formulas = [*(models or ()), *(str(each) for each in records if each not in existing)]
    check_outputs([out], inputs=existing, force=force)
    contents = [coefficients.read_record(record) for record in existing]
    if models:
        contents = [coefficients.nested_record(each, one) for each in contents for one in formulas]
    if by:
        contents = [coefficients.record_by_group(each, by) for each in contents]
    if methods:
        options.echo(methods_of(contents))
        return
    if out:
        coefficients.write_table(contents, out)
    options.echo(str(out) if out else coefficients.text_of(contents), nl=bool(out))


def _inches(text: str) -> float:
    parts = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?(in|cm|mm)", text)
    width = float(parts[1]) / {"in": 1.0, "cm": 2.54, "mm": 25.4}[parts[2]] if parts else 0.0
    if not 1 <= width <= 30:
        raise typer.BadParameter(f"must be 1in to 30in, or in cm or mm, got {text!r}; pass e.g. 3.3in")
    return width


def figure(
    study: Annotated[
        str,
        options.argument("STUDY", "Study with a report, by name or file; or a record of survival curves."),
    ],
    form: Annotated[
        Any, options.option("[pdf|svg|png]", "File format.", "--format", parser=_FORMATS)
    ] = "pdf",
    width: Annotated[
        float, options.option("LENGTH", "Width of the figure, e.g. 3.3in or 8.4cm.", parser=_inches)
    ] = "6.5in",  # type: ignore[assignment]
    out: Annotated[Path | None, options.option("FILE", "Output file; default: STUDY.FORMAT.")] = None,
    reports: Annotated[Path | None, options.option("FOLDER", "Report folder; default: reports/out.")] = None,
    plugins: options.Plugins = None,
    force: options.Force = False,
) -> None:
    """Write the chart of a study or of survival curves for a paper, and its data as NAME-figure.csv."""
    options.use_plugins(plugins or [])
    from flows.studies.results import stored_page
    from reports.charts.figure import draw_curves, draw_figure

    record, warning = Path(study), ""
    if record.suffix == ".json" or (record / "release.json").exists():
        name, inputs, draw = record.stem, [record], partial(draw_curves, _curves_of(record))
    elif record.name != study and record.suffix != ".toml":
        raise SpecError(
            f"STUDY must be a study or the record of survival curves; {study} has no release.json"
        )
    else:
        page, results = stored_page(study, reports)
        name, warning, folder = page.name, page.warning, (reports or REPORTS) / page.name
        inputs = [folder / "results.parquet", folder / "manifest.json"]
        inputs += files_named_by(record) if study.endswith(".toml") else ()
        draw = partial(draw_figure, results, page)
    path = out or Path(f"{name}.{form}")
    files = path, path.with_name(f"{path.stem}-figure.csv")
    check_outputs([path], inputs=inputs, force=force)
    contents = draw(form, width)
    if not (
        files[1].is_file() and files[1].read_bytes() == contents[1]
    ):  # of the same figure in another format
        check_outputs([files[1]], inputs=inputs, force=force)
    if warning:
        say(f"note: {warning}")
    for file, content in zip(files, contents, strict=True):
        atomic_write(file, content)
    options.echo(", ".join(map(str, files)))


def _curves_of(record: Path) -> "SurvivalCurves":
    from dpalgos.survival.curves import SurvivalCurves
    from tasks.report.coefficients import by_group_of, read_record

    curves = by_group_of(read_record(record)["release"])
    if not isinstance(curves, SurvivalCurves):
        raise SpecError(f"STUDY must be a study, or the record of survival curves, got the record {record}")
    return curves
