"""The league of the documentation: the page of the results that ``tests/bench/league`` stored."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from generate.evidence import table
from tests.bench.league.judging import lengthened, measured_by
from tests.bench.league.ours import FILE, HISTORY
from tests.bench.league.page import QUESTION, league_page

_MACHINE = re.compile(r"(\w+ \w+, \d+ cores, Python [\d.]+), ")


def copy_page(folder: Path) -> None:
    """Write the league's page, which needs no other file, below a folder."""
    (folder / "league").mkdir(parents=True, exist_ok=True)
    (folder / "league" / "report.html").write_bytes(_page(whole=True)[0])


def pages() -> dict[str, str]:
    """Return what the guide shows of the page: no pictures, and not the tables one by one."""
    text = _page(whole=False)[1].decode()
    lines = text.split(QUESTION, 1)[1].splitlines()
    link = '<a href="../gallery/league/report.html">The whole page</a> has a table for each dataset.'
    page = "\n".join([link, *(line for line in lines if not line.startswith("!["))]) + "\n"
    return {"league.txt": page, "league_history.txt": history_table()}


def _page(*, whole: bool) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown."""
    short = json.loads(FILE.read_text(encoding="utf-8"))
    league = lengthened(short)
    ran = f"{short['version']}, {short['finished'][:10]}, {measured_by(league)}."
    return league_page(league, ran, whole=whole)


def history_table() -> str:
    """Return the runs that were published as a table, the last one first."""
    with HISTORY.open(encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    runs = [[date, _machines(machines), *others] for date, machines, *others in reversed(rows)]
    return table(columns, runs)


def _machines(listed: str) -> str:
    """Return the machine once if all runs had the same one, and then each run's time and code."""
    machines = {each[1] for each in _MACHINE.finditer(listed)}
    return f"{machines.pop()}: {_MACHINE.sub('', listed)}" if len(machines) == 1 else listed
