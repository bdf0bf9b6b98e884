"""The command that checks study and release files."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import argument


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{toml(str(key))} = {toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def check(
    file: Annotated[Path, argument("FILE", "Study file or release file.")],
) -> None:
    """List everything that is missing or wrong in a study or release file; reads no row."""
    from data.columns import MOST_FAULTS
    from tasks.errors import SpecError
    from tasks.own_table.analyst_table import require_clusters
    from tasks.study.own_data import read_toml

    content = read_toml(file)[1]
    if {"plan", "question"} <= set(content):
        raise SpecError(
            f"{file} must be a study or release file, got a plan; run: dpcost protocol check {file}"
        )
    is_release = "dataset" in content and "panels" not in content
    if is_release:
        from tasks.release.request import checked_request

        _, own, faults = checked_request(file)
        table = own.data if own else None
    else:
        from tasks.study.study_file import checked_study

        study, faults = checked_study(file)
        table = study.analyst_table if study else None
    if faults:
        raise SpecError("\n  ".join([f"{file} is incomplete or invalid:", *faults]))
    if table and Path(table.path).exists():
        require_clusters(Path(table.path), table)
    typer.echo(f"{file}: complete and valid; no row was read")
    columns = table.columns if table else ()
    if codes := [f"{column.name}: {found}" for column in columns if (found := column.cut_codes())]:
        more = [f"and of {len(codes) - MOST_FAULTS} more columns"] * (len(codes) > MOST_FAULTS)
        shown = "; ".join([*codes[:MOST_FAULTS], *more])
        typer.echo(
            f"common codes for missing values are outside the bounds of {shown}; "
            'if the codebook lists them, write e.g. missing = ["99"] below the column'
        )
