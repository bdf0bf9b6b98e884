"""What is declared of a table's columns: in a codebook or by the model; what is wrong in it."""

import csv
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from data.errors import numbered

_NUMBERS = ("lower", "upper", "center", "scale", "impute")
_CODEBOOK = ("name", "lower", "upper", "levels", "center", "scale", "unit", "source")
Declarations = dict[str, dict[str, str]]  # column → key → its value as TOML


def from_codebook(file: Path) -> Declarations:
    """Read a public codebook: a CSV file with name, lower, upper, levels (between semicolons) and more.

    Raises
    ------
    SpecError
        With the line and the column of the codebook.
    """
    from tasks.errors import SpecError

    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"--codebook must be a CSV file, got {file} ({type(error).__name__})") from None
    known = set(rows[0]) if rows else set()
    if "name" not in known or known - set(_CODEBOOK):
        raise SpecError(
            f"--codebook {file} must have the columns name, lower, upper, levels and may have "
            f"{', '.join(_CODEBOOK[4:])}, got {', '.join(map(str, known)) or 'no row'}"
        )
    declarations: Declarations = {}
    faults: list[str] = []
    for number, row in enumerate(rows, 2):
        cells = {key: (value or "").strip() for key, value in row.items() if isinstance(value, str)}
        declared, wrong = _declared(cells, file)
        faults += [f"line {number}: {fault}" for fault in wrong]
        declarations[cells.get("name", "")] = declared
    if faults:
        raise SpecError(f"--codebook {file}: {numbered(faults)}; correct the codebook")
    return declarations


def _declared(cells: Mapping[str, str], file: Path) -> tuple[dict[str, str], list[str]]:
    """Return what a line of a codebook declares, and what is wrong in it."""
    declared, faults = {"source": toml(cells.get("source") or f"codebook {file.name}")}, []
    for key in _CODEBOOK[1:]:
        value = cells.get(key, "")
        if not value or key == "source":
            continue
        if key == "levels":
            levels = [level.strip() for level in value.split(";")]
            declared["categories"] = toml(levels)
            if len(levels) < 2:
                faults.append(
                    f'levels must be two or more, separated by ";" as in male;female, got {value!r}'
                )
            continue
        try:
            declared[key] = toml(float(value) if key in _NUMBERS else value)
        except ValueError:
            faults.append(f"{key} must be a number, got {value!r}")
    if cells.get("levels") and (cells.get("lower") or cells.get("upper")):
        faults.append("levels and bounds do not go together; keep those that suit the column")
    return declared, faults


def of_a_label(response: str) -> Declarations:
    return {response: {"lower": "0", "upper": "1", "source": toml("a label is 0 or 1")}}


def combined(*sources: Declarations) -> Declarations:
    """Return declarations, of which later ones replace earlier ones key by key."""
    names = dict.fromkeys(name for source in sources for name in source)
    return {name: {k: v for source in sources for k, v in source.get(name, {}).items()} for name in names}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{toml(str(key))} = {toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def from_toml(value: str) -> Any:
    return tomllib.loads(f"value = {value}")["value"]


def check(
    file: Annotated[Path, typer.Argument(help="A study file or a release file.")],
) -> None:
    """List all that is missing or wrong in a study or release file, in one go; reads no row."""
    from data.tables.declared import cut_codes
    from tasks.errors import SpecError
    from tasks.release.request import checked_request
    from tasks.study.study_file import checked_study, read_toml

    content = read_toml(file)[1]
    is_release = "dataset" in content and "panels" not in content
    study, faults = checked_request(file)[1:] if is_release else checked_study(file)
    if faults:
        raise SpecError("\n  ".join([f"{file}: {len(faults)} to mend", *faults]))
    typer.echo(f"{file}: nothing is missing or wrong, as far as can be told without reading a row")
    declared = (
        [column.declared for column in study.analyst_table.columns] if study and study.analyst_table else []
    )
    if codes := "; ".join(f"{column.name}: {found}" for column in declared if (found := cut_codes(column))):
        typer.echo(
            f"codes for missing cells? common ones lie beyond the bounds of {codes}; where the codebook has "
            'them, write e.g. missing = ["99"] below the column'
        )
    if not is_release:
        typer.echo(f"for the owner alone, spellings, gaps and bounds in the rows: dpcost show-private {file}")


_MOST_TEXTS = 50  # that are shown of a column


def show_private(
    study: Annotated[Path, typer.Argument(help="A study file of your own table.")],
) -> None:
    """Show you, the owner, private cells of your own file that your study file does not declare.

    It is no release: no noise, no charge, nothing is stored. What is shown stays with you; declare levels
    that the codebook knows, and don't publish what you see.
    """
    from data.tables.declared import undeclared_cells
    from tasks.errors import SpecError
    from tasks.study.study_file import load_study

    table = load_study(study).analyst_table
    if table is None:
        raise SpecError(f"STUDY must be a study file with its own [data], got {str(study)!r}")
    columns = [column.declared for column in table.columns if column.declared.derived is None]
    lines = ["PRIVATE, for the owner of the file alone: no release, not for publication"]
    for name, texts in undeclared_cells(Path(table.path), columns, table.marks).items():
        more = f", and {len(texts) - _MOST_TEXTS} more" * (len(texts) > _MOST_TEXTS)
        lines.append(f"{name}: {', '.join(texts[:_MOST_TEXTS])}{more}")
    typer.echo("\n".join(lines if lines[1:] else [f"{study}: every cell of the file is declared"]))
