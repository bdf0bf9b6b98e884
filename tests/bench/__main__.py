"""Run every ``bench_*`` function of this folder; write ``bench.{json,md,html}`` in ``reports/out/bench``.

Names of modules as arguments choose some of them; what was measured of the others before stays in the table.
Seconds are of the processor where one process computes in one thread, so that a busy machine does not count.
"""

import importlib
import json
import pkgutil
import platform
import sys
from dataclasses import asdict
from html import escape
from pathlib import Path

from threadpoolctl import threadpool_limits

from data.store.folders import PROJECT_ROOT, atomic_write
from tests.bench.goals import Goal
from tests.result_page import html_page, html_table, markdown_table

OUT = PROJECT_ROOT / "reports" / "out" / "bench"
HEAD = ["benchmark", "figure", "median", "5 % … 95 % (runs)", "goal", "reached"]
TITLE = "Benchmarks"


def main() -> None:
    """Measure, print, and write the table after each module, so that nothing measured is lost."""
    chosen = sys.argv[1:]
    stored = OUT / "bench.json"
    rows = (
        {row["benchmark"]: row for row in json.loads(stored.read_text())["benchmarks"]}
        if (chosen and stored.exists())
        else {}
    )
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name == "__main__" or (chosen and module.name not in chosen):
            continue
        found = importlib.import_module(f"tests.bench.{module.name}")
        for name, function in sorted(vars(found).items()):
            if name.startswith("bench_"):
                with threadpool_limits(1):
                    measured = function()
                goals = [asdict(goal) for goal in measured.pop("goals", [])]
                row = {"benchmark": name.removeprefix("bench_"), **measured, "goals": goals}
                rows[row["benchmark"]] = row
                write(list(rows.values()))
                print(f"{row['benchmark']}: {row['figure']} (wanted {row['wanted']})", flush=True)
    print(OUT / "bench.html")


def write(rows: list[dict]) -> None:
    """Write what was measured: everything as JSON, the table as Markdown and HTML."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, one BLAS thread"
    lines = [[row["benchmark"], *Goal(**goal).cells()] for row in rows for goal in row["goals"]]
    words = [f"{row['benchmark']}: {row['figure']} (wanted {row['wanted']})" for row in rows]
    content = {
        "bench.json": json.dumps({"machine": machine, "benchmarks": rows}, indent=1),
        "bench.md": "\n\n".join(
            [f"# {TITLE}", machine, markdown_table(HEAD, lines), "\n".join(f"- {line}" for line in words)]
        )
        + "\n",
        "bench.html": html_page(
            TITLE,
            [
                f"<p>{escape(machine)}</p>",
                html_table(HEAD, lines),
                "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in words) + "</ul>",
            ],
        ),
    }
    for name, text in content.items():
        atomic_write(OUT / name, text.encode())


main()
