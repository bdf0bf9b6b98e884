"""The table of releases, from their records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.store.folders import atomic_write, read_json
from dpalgos import get_estimator
from dpalgos.coefficients import CoefficientTable, promise
from reports.pages.coefficient_table import FORMATS, Model, render
from reports.writing import num
from tasks.faults import SpecError
from tasks.release.table import AT_CENTERS

_FIT = {"r_squared": "R²", "residual_std": "residual std. deviation"}


def read_record(path: Path) -> dict[str, Any]:
    """Read a release's record: ``release.json``, or the folder that holds it."""
    file = path / "release.json" if path.is_dir() else path
    try:
        record = read_json(file)
        if {"deployment", "release"} <= set(record):
            return dict(record)
    except (OSError, ValueError, TypeError):
        pass
    raise SpecError(f"{file} must be the record of a release, written by dpcost release --record")


def write_table(records: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write the table of one or several releases; the end of the file's name says the format."""
    form = table_format(file)
    atomic_write(file, render([_model(record) for record in records], form))


def table_format(file: Path) -> str:
    """Return the format that a file's name asks for; refuse one that is not known."""
    form = file.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise SpecError(f"--table must end in .{', .'.join(FORMATS)}, got {file.name!r}")
    return form


def text_of(records: Sequence[Mapping[str, Any]]) -> str:
    return render([_model(record) for record in records], "txt").decode()


def _model(record: Mapping[str, Any]) -> Model:
    release, deployment = record["release"], record["deployment"]
    about, loss = release.get("model", {}), deployment["privacy_loss"]
    parameters, unit = loss["privacy_parameters"], loss["privacy_unit"].lower()
    answer, level = release["answer"] or [], release["level"]
    ends = [[each[end] for each in answer] for end in ("lower", "upper")]
    table = CoefficientTable(
        terms=[each["name"] for each in answer],
        estimate=np.array([each["estimate"] for each in answer]),
        interval=np.array(ends, dtype=float) if level is not None else None,
        level=level,
        family=about.get("family", ""),
        intercept=AT_CENTERS,
    )
    against = "; ".join(f"{name} against {level}" for name, level in about.get("references", {}).items())
    references = f"Reference levels: {against}." if against else ""
    facts = {
        "response": about.get("response", ""),
        f"{unit}s": f"{about['n']:,}" if "n" in about else "",
        "ε": f"{parameters['epsilon']:g}",
        "δ": f"{parameters['delta']:g}",
        "protected": f"each {unit}",
        "estimator": get_estimator(release["estimator"]).title,
        **{title: _with_ends(release.get("fit", {}), name) for name, title in _FIT.items()},
    }
    has_ends = any(end is not None for end in ends[0])
    sentence = promise(unit, parameters["epsilon"], parameters["delta"], level if has_ends else None)
    return Model(
        title=deployment["product"]["name"],
        rows=table.rows(),
        level=level,
        facts={name: value for name, value in facts.items() if value},
        footnote=" ".join(filter(None, [sentence, about.get("missing_cells", ""), references])),
    )


def _with_ends(fit: Mapping[str, float], name: str) -> str:
    if name not in fit:
        return ""
    return f"{num(fit[name])} [{num(fit[f'{name}_low'])}, {num(fit[f'{name}_high'])}]"
