"""``dpcost figure``: the chart of a study's page, for a paper."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from data.store.folders import REPORTS, atomic_write
from data.store.output_files import check_outputs, files_named_by
from flows.cli import options
from flows.progress import say

_FORMATS = options.parser_of(Literal["pdf", "svg", "png"])


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
    record = Path(study)
    if record.suffix == ".json" or (record / "release.json").exists():
        _curves(record, out or Path(f"{record.stem}.{form}"), form, width, force=force)
        return
    from flows.studies.results import stored_page
    from reports.charts.figure import FigureError, draw_figure
    from tasks.errors import SpecError

    page, results = stored_page(study, reports)
    folder = (reports or REPORTS) / page.name
    stored = [folder / "results.parquet", folder / "manifest.json"]
    inputs = [*stored, *(files_named_by(Path(study)) if study.endswith(".toml") else ())]
    files = _checked_files(out or Path(f"{page.name}.{form}"), inputs, force=force)
    try:
        contents = draw_figure(results, page, form, width)
    except FigureError as error:
        raise SpecError(str(error)) from None
    if page.warning:
        say(f"note: {page.warning}")
    _write(files, contents)


def _curves(record: Path, path: Path, form: Any, width: float, *, force: bool) -> None:
    """Write the figure of a release of survival curves."""
    from dpalgos.answers.survival import SurvivalCurves
    from reports.charts.figure import draw_curves
    from tasks.errors import SpecError
    from tasks.report.coefficients import by_group_of, read_record

    curves = by_group_of(read_record(record)["release"])
    if not isinstance(curves, SurvivalCurves):
        raise SpecError(f"STUDY must be a study, or the record of survival curves, got the record {record}")
    files = _checked_files(path, [record], force=force)
    _write(files, draw_curves(curves, form, width))


def _checked_files(path: Path, inputs: Sequence[Path], *, force: bool) -> tuple[Path, Path]:
    """Return the files of a figure and of its data; refuse one that is there or is read."""
    files = path, path.with_name(f"{path.stem}-figure.csv")
    check_outputs([*files], inputs=inputs, force=force)
    return files


def _write(files: tuple[Path, Path], contents: tuple[bytes, bytes]) -> None:
    for file, content in zip(files, contents, strict=True):
        atomic_write(file, content)
    typer.echo(", ".join(map(str, files)))
