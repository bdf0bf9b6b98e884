"""The league of the documentation: ``league.json``, a short form of a run's results, and the page it makes.

From the folder ``docs``: ``../.venv/bin/python -m generate.league ../reports/out "what changed"`` takes the
last run of ``dpcost run league``, which has the stored results of other libraries. It also adds the
run's line to ``league_history.csv``, the list of published runs.
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
from reports.league import comparisons, lengthened, measured_by, shortened
from reports.pages.league import league_answer, league_sections
from reports.render import render_page

NAME, TITLE = "league", "The league of private regressions and means"
QUESTION = "Whose private regressions and means come closest to those without privacy, on public tables?"
FILE = Path(__file__).resolve().parents[1] / "league.json"
HISTORY = FILE.with_name("league_history.csv")
_MACHINE = re.compile(r"(\w+ \w+, \d+ cores, Python [\d.]+), ")
_COUNTS = ("better", "worse", "undecided")


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
    ran = f"{short['version']}, {short['finished'][:10]}, {measured_by(league)}."
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
    return [about["finished"][:10], measured_by(results), *counts, changed]


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
