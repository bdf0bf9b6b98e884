"""The commands that list what there is: ``dpcost studies``, ``dpcost estimators``, ``dpcost datasets``."""

import json
import logging
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import AsJson, print_rows

_FLOWS = Path(__file__).resolve().parents[1]
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
            _log.warning("%s is left out (%s); dpcost run %s says what is wrong", path.name, error, name)
    print_rows(rows, as_json, lambda row: f"{row['name']:<24}{row['title']}")


def _listed(name: str, study: dict[str, Any]) -> dict[str, Any]:
    """Return what the list shows of a study file, read without the seconds that checking it takes."""
    problems = [panel["problem"] for panel in study.get("panels", [])]
    datasets = list(dict.fromkeys(each["dataset"] for each in problems if "dataset" in each))
    question = study["question"].strip()
    return {"name": name, "title": study["title"], "datasets": datasets, "question": question}


def estimators(
    name: Annotated[str | None, typer.Argument(help="Explain one estimator.")] = None,
    task: Annotated[str | None, typer.Option(help="Only those for a task, e.g. mean.")] = None,
    model: Annotated[str | None, typer.Option(help="Only none, central, local or user.")] = None,
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
    for field, option, wanted in (("task", "--task", task), ("privacy_model", "--model", model)):
        known = sorted({row[field] for row in rows})
        if wanted is not None and wanted not in known:
            raise dpalgos.InputError(f"{option} must be one of {', '.join(known)}, got {wanted!r}")
        rows = [row for row in rows if wanted in (None, row[field])]
    print_rows(rows, as_json, lambda row: f"{row['name']:<28}{row['privacy_model']:<9}{row['summary']}")


def _explained(row: dict[str, Any]) -> str:
    if row["privacy_model"] == "none":
        promise = "not private"
    else:
        promise = (
            f"(ε, δ) under {row['neighboring_relation']}, per {row['unit_of_privacy']} "
            f"({row['privacy_model']} model), calibration {' or '.join(row['calibrations'])}"
        )
    lines = [
        f"{row['name']}: {row['title']}",
        row["summary"],
        "",
        f"task        {row['task']}",
        f"privacy     {promise}",
        f"interval    {'yes, with interval=.95' if row['interval'] else 'none'}",
        f"reference   {row['reference']}",
        *([f"public      {row['public']}"] if row["public"] else []),
        "",
        "keywords",
    ]
    for each in row["parameters"]:
        default = "required" if each["required"] else f"default {each['default']!r}"
        lines.append(f"  {each['name']:<28}{default:<19} {each['doc']}")
    lines += ["", "releases"] if row["releases"] else []
    for each in row["releases"]:
        about = f"share {each['share']}, sensitivity {each['sensitivity']}, made in {each['made in']}"
        lines.append(f"  {each['quantity']:<28}{about}; forms: {each['forms']}")
    return "\n".join(lines)


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
