"""What is known already of a table's columns: from an earlier study file, a public codebook, or the model."""

import csv
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_NUMBERS = ("lower", "upper", "center", "scale", "impute")
_KEYS = (*_NUMBERS, "missing", "categories", "others", "transform", "unit", "source")
_CODEBOOK = ("name", "lower", "upper", "levels", "center", "scale", "unit", "source")
Declarations = dict[str, dict[str, str]]  # column → key → its value as TOML


def declared_before(study: Path) -> tuple[Declarations, dict[str, str]]:
    """Return what an earlier study file declares of its columns and under ``[data]``, as far as it does."""
    try:
        data = tomllib.loads(study.read_text(encoding="utf-8"))["data"]
        columns = [(str(column["name"]), column) for column in data["columns"]]
    except (OSError, ValueError, KeyError, TypeError):
        return {}, {}
    kept = ("privacy_unit", "missing", "outside")
    return {name: _filled(column, _KEYS) for name, column in columns}, _filled(data, kept)


def _filled(table: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str]:
    return {key: toml(table[key]) for key in keys if key in table and table[key] not in ("?", ["?"])}


def from_codebook(file: Path) -> Declarations:
    """Read a public codebook: a CSV file with name, lower, upper, levels (between semicolons) and more.

    Raises
    ------
    SpecError
        With the line and the column of the codebook.
    """
    from tasks.faults import SpecError

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
    for number, row in enumerate(rows, 2):
        cells = {key: (value or "").strip() for key, value in row.items()}
        declared = {"source": toml(cells.get("source") or f"codebook {file.name}")}
        for key in _CODEBOOK[1:]:
            value = cells.get(key, "")
            if not value or key == "source":
                continue
            if key == "levels":
                declared["categories"] = toml([level.strip() for level in value.split(";")])
            else:
                declared[key] = toml(
                    _number(value, f"{file}, line {number}: {key}") if key in _NUMBERS else value
                )
        declarations[cells["name"]] = declared
    return declarations


def _number(text: str, where: str) -> float:
    from tasks.faults import SpecError

    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{where} must be a number, got {text!r}; correct the codebook") from None


def of_a_label(response: str) -> Declarations:
    return {response: {"lower": "0", "upper": "1", "source": toml("a label is 0 or 1")}}


def combined(*sources: Declarations) -> Declarations:
    """Return declarations, of which later ones replace earlier ones key by key."""
    names = dict.fromkeys(name for source in sources for name in source)
    return {name: {k: v for source in sources for k, v in source.get(name, {}).items()} for name in names}


def toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
