"""The league of the documentation: ``league.json``, a short form of a run's results, and the page it makes.

From the folder ``docs``: ``../.venv/bin/python -m generate.league ../reports/out "what changed"`` takes the
last run of ``dpcost run league``, and adds its line to ``league_history.csv``, the list of published runs.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

from flows.studies.results import stored_page
from generate.evidence import table
from reports.league import comparisons
from reports.pages.league import league_answer, league_sections
from reports.render import render_page

NAME, TITLE = "league", "The league of private regressions and means"
QUESTION = "Whose private regressions and means come closest to those without privacy, on public tables?"
FILE = Path(__file__).resolve().parents[1] / "league.json"
HISTORY = FILE.with_name("league_history.csv")
_MACHINE = re.compile(r"(\w+ \w+, \d+ cores, Python [\d.]+), ")
_COUNTS = ("better", "worse", "undecided")
_VALUES = ("epsilon", "value", "standard_error", "seconds", "repetitions", "halves")


def shortened(results: dict[str, Any]) -> dict[str, Any]:
    """Return results with rows as lists by method and table, and numbers to four digits."""
    fits: dict[str, dict[str, list[Any]]] = {}
    for row in results["rows"]:
        of_table = fits.setdefault(row["method"], {}).setdefault(row["table"], [])
        if "value" in row:
            of_table.append([_rounded(row.get(key)) for key in _VALUES])
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


def _rounded(value: Any) -> Any:
    """Return a number to four digits, or the numbers of a list."""
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value if value is None or isinstance(value, int) else float(f"{value:.4g}")


def _row(values: list[Any]) -> dict[str, Any]:
    if len(values) == 2:
        return dict(zip(("epsilon", "error"), values, strict=True))
    return dict(zip(_VALUES, values, strict=True))


def copy_page(folder: Path) -> None:
    """Write the league's page, which needs no other file, below a folder."""
    if FILE.exists():
        (folder / NAME).mkdir(parents=True, exist_ok=True)
        (folder / NAME / "report.html").write_bytes(_page(whole=True)[0])


def pages() -> dict[str, str]:
    """Return what the guide shows of the page: no pictures, and not the tables one by one."""
    if not FILE.exists():
        return {"league.txt": "No run of the league is kept here.\n", "league_history.txt": history_table()}
    text = _page(whole=False)[1].decode()
    lines = text.split(QUESTION, 1)[1].splitlines()
    link = '<a href="../gallery/league/report.html">The whole page</a> has a table for each dataset.'
    shown = "\n".join([link, *(line for line in lines if not line.startswith("!["))]) + "\n"
    return {"league.txt": shown, "league_history.txt": history_table()}


def _page(*, whole: bool) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown."""
    short = json.loads(FILE.read_text(encoding="utf-8"))
    league = lengthened(short)
    ran = f"{short['version']}, {short['finished'][:10]}, {'; '.join(short['machines'])}."
    about = {"title": TITLE, "answer": league_answer(league), "lead": [QUESTION, ran]}
    return render_page("pages/league.jinja", sections=league_sections(league, whole=whole), **about)


def history_table() -> str:
    """Return the runs that were published as a table, the last one first."""
    with HISTORY.open(encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    shown = [[date, _machines(machines), *others] for date, machines, *others in reversed(rows)]
    return table(columns, shown)


def _machines(listed: str) -> str:
    """Return the machine once if all runs had the same one, and then each run's time and code."""
    found = {each[1] for each in _MACHINE.finditer(listed)}
    return f"{found.pop()}: {_MACHINE.sub('', listed)}" if len(found) == 1 else listed


def history_line(results: dict[str, Any], about: dict[str, Any], changed: str) -> list[str]:
    """Return a run's line: when, which code, how our methods did, and what changed in them since the last."""
    found = comparisons(results)
    counts = []
    for means, developed in ((False, False), (False, True), (True, False)):
        own = [
            each.verdict
            for each in found
            if (each.family == "means") is means and results["tables"][each.table]["developed"] is developed
        ]
        listed = " / ".join(str(own.count(verdict)) for verdict in _COUNTS)
        counts.append(f"{listed} of {len(own)}" if own else "–")
    return [about["finished"][:10], "; ".join(results["machines"]), *counts, changed]


def main(reports: Path, changed: str) -> None:
    """Write the short form of the last run's results, and its line of the history."""
    page, _ = stored_page(NAME, reports)
    results = lengthened(shortened(dict(page.layout_facts)))  # of these digits: verdicts of others may differ
    about = {key: page.manifest[key] for key in ("command", "finished")}
    about["version"] = f"dpcost {page.manifest['dpcost']}"
    content = json.dumps(shortened(results) | about, ensure_ascii=False, separators=(",", ":"))
    FILE.write_text(content + "\n", encoding="utf-8")
    with HISTORY.open("a", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerow(history_line(results, about, changed))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
