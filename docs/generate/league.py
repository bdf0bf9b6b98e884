"""The league of the documentation: ``league.json``, a short form of a run's results, and the page it makes.

From the folder ``docs``: ``../.venv/bin/python -m generate.league ../reports/out`` takes the last run of
``dpcost league``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from reports.pages.league import NAME, QUESTION, render_league

FILE = Path(__file__).resolve().parents[1] / "league.json"
_VALUES = ("epsilon", "value", "standard_error", "seconds", "repetitions")


def shortened(results: dict[str, Any]) -> dict[str, Any]:
    """Return results with rows as lists by method and table, and numbers to four digits."""
    fits: dict[str, dict[str, list[Any]]] = {}
    for row in results["rows"]:
        of_table = fits.setdefault(row["method"], {}).setdefault(row["table"], [])
        if "value" in row:
            of_table.append([_rounded(row[key]) for key in _VALUES])
        else:
            of_table.append([row["epsilon"], row["error"]])
    return {**{key: value for key, value in results.items() if key != "rows"}, "fits": fits}


def lengthened(short: dict[str, Any]) -> dict[str, Any]:
    """Return the results that :func:`shortened` was given, but for the digits."""
    rows = [
        {"table": table, "method": method, "family": short["tables"][table]["family"], **_row(values)}
        for method, of_method in short["fits"].items()
        for table, fits in of_method.items()
        for values in fits
    ]
    return {**{key: value for key, value in short.items() if key != "fits"}, "rows": rows}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _row(values: list[Any]) -> dict[str, Any]:
    if len(values) == 2:
        return dict(zip(("epsilon", "error"), values, strict=True))
    return dict(zip(_VALUES, values, strict=True))


def copy_page(folder: Path) -> None:
    """Write the league's page, which needs no other file, below a folder."""
    if FILE.exists():
        (folder / NAME).mkdir(parents=True, exist_ok=True)
        (folder / NAME / "report.html").write_bytes(_files(tables=True)["report.html"])


def pages() -> dict[str, str]:
    """Return what the guide shows of the page: no pictures, and not the tables one by one."""
    if not FILE.exists():
        return {"league.txt": "No run of the league is kept here.\n"}
    text = _files(tables=False)["report.md"].decode()
    lines = text.split(QUESTION, 1)[1].splitlines()
    link = '<a href="../gallery/league/report.html">The whole page</a> has a table for each dataset.'
    return {"league.txt": "\n".join([link, *(line for line in lines if not line.startswith("!["))]) + "\n"}


def _files(*, tables: bool) -> dict[str, bytes]:
    short = json.loads(FILE.read_text(encoding="utf-8"))
    about = {key: short[key] for key in ("command", "finished", "version")}
    results = lengthened(short)
    return render_league(results if tables else {**results, "tables": {}}, **about)


def main(reports: Path) -> None:
    """Write the short form of the last run's results."""
    folder = reports / NAME
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    about = {"command": manifest["command"], "finished": manifest["finished"], "version": manifest["dpcost"]}
    content = json.dumps(shortened(results) | about, ensure_ascii=False, separators=(",", ":"))
    FILE.write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
