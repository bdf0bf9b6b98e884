"""The commands that list what there is: ``dpcost studies``, ``dpcost estimators``, ``dpcost datasets``."""

import json
import logging
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import AsJson, argument, option, print_rows

_FLOWS = Path(__file__).resolve().parents[1]
RELEASE_COLUMNS = ("release", "budget share", "sensitivity", "when")
_log = logging.getLogger(__name__)


def studies(as_json: AsJson = False) -> None:
    """List the studies."""
    files = {path.stem: path for path in sorted((_FLOWS / "studies").glob("*.toml"))}
    files["scorecard"] = _FLOWS / "claims.toml"
    rows = []
    for name, path in files.items():
        try:
            rows.append(_listed(name, tomllib.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("%s is skipped (%s); dpcost run %s shows the fault", path.name, error, name)
    print_rows(rows, as_json, lambda row: f"{row['name']:<24}{row['title']}")


def _listed(name: str, study: dict[str, Any]) -> dict[str, Any]:
    """Return what the list shows of a study file, read without the seconds that checking it takes."""
    problems = [panel["problem"] for panel in study.get("panels", [])]
    datasets = list(dict.fromkeys(each["dataset"] for each in problems if "dataset" in each))
    question = study["question"].strip()
    return {"name": name, "title": study["title"], "datasets": datasets, "question": question}


def estimators(
    name: Annotated[str | None, argument("NAME", "Estimator to explain; default: list all.")] = None,
    task: Annotated[str | None, option("NAME", "Only estimators for this task, e.g. mean.")] = None,
    model: Annotated[
        str | None, option("[none|central|local|user]", "Only estimators with this privacy model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the estimators, or explain one."""
    import dpalgos

    if name is not None:
        entry = dpalgos.get_estimator(name)
        if as_json:
            typer.echo(json.dumps(entry.to_dict(), indent=1))
        else:
            typer.echo(_explained(entry.to_dict()))
        return
    rows = [entry.to_dict() for entry in dpalgos.catalog()]
    for field, words, value in (("task", "--task", task), ("privacy_model", "--model", model)):
        known = sorted({row[field] for row in rows})
        if value is not None and value not in known:
            raise dpalgos.InputError(f"{words} must be one of {', '.join(known)}, got {value!r}")
        rows = [row for row in rows if value in (None, row[field])]
    print_rows(rows, as_json, lambda row: f"{row['name']:<28}{row['privacy_model']:<9}{row['summary']}")


def _explained(row: dict[str, Any]) -> str:
    if row["privacy_model"] == "none":
        guarantee = "not private"
    else:
        guarantee = (
            f"(ε, δ) under {row['neighboring_relation']}, per {row['unit_of_privacy']} "
            f"({row['privacy_model']} model), calibration {' or '.join(row['calibrations'])}"
        )
    lines = [
        f"{row['name']}: {row['title']}",
        row["summary"],
        "",
        f"task        {row['task']}",
        f"privacy     {guarantee}",
        f"interval    {'yes, with interval=0.95' if row['interval'] else 'none'}",
        f"reference   {row['reference']}",
        *([f"public      {row['public']}"] if row["public"] else []),
        "",
        "keywords",
    ]
    for each in row["parameters"]:
        default = "required" if each["required"] else f"default {each['default']!r}"
        lines.append(f"  {each['name']:<28}{default:<19} {each['doc']}")
    if row["releases"]:
        table = [RELEASE_COLUMNS, *release_rows(row["releases"])]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines += ["", "releases"]
        lines += [f"  {'  '.join(map(str.ljust, cells, widths)).rstrip()}" for cells in table]
    return "\n".join(lines)


def release_rows(releases: Sequence[Mapping[str, str]]) -> list[tuple[str, ...]]:
    """Return a row of :data:`RELEASE_COLUMNS` for each release of an estimator."""
    return [(each["quantity"], each["share"], each["sensitivity"], each["forms"]) for each in releases]


def datasets(as_json: AsJson = False) -> None:
    """List the datasets."""
    from data.datasets import load_registry

    rows = [
        {
            "name": d.name,
            "title": d.title,
            "rows": d.n_rows,
            "privacy_unit": d.privacy_unit,
            "license": d.license,
            "citation": d.citation,
            "source": d.source.url,
            "columns": [column.name for column in d.columns],
        }
        for d in load_registry().values()
    ]
    print_rows(rows, as_json, lambda row: f"{row['name']:<16}{row['rows']:>8,} rows  {row['title']}")
