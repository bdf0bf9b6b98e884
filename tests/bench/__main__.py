"""Run the benchmarks of this folder; write ``bench.{json,md}`` in ``reports/out/bench``.

Names of modules as arguments choose some, by default those of speed; what was measured of the others before
stays in the table. One that fails is named in its line, and the others go on. Seconds are of the processor
where one process computes in one thread, so that a busy machine does not count. The status is 1 where a
benchmark failed or a quarter of the last release's speed is lost.
"""

import argparse
import importlib
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from threadpoolctl import threadpool_limits

from data.store.folders import PROJECT_ROOT, atomic_write
from tests.bench.goals import Goal, Measurement, write_facts
from tests.bench.speed import keep

OUT = PROJECT_ROOT / "reports" / "out" / "bench"
HEAD = ["benchmark", "data", "figure", "median", "5 % … 95 % (runs)", "goal", "reached"]
SPEED = ("speed", "commands", "orchestration", "streaming")


def benchmarks(chosen: list[str]) -> Iterator[tuple[str, Callable[..., Measurement]]]:
    """Yield the ``bench_*`` functions of some modules, of all if none is named, with their names."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    for module in chosen or [name for name in modules if not name.startswith(("_", "test_"))]:
        found = importlib.import_module(f"tests.bench.{module}")
        for name, function in sorted(vars(found).items()):
            if name.startswith("bench_"):
                yield name.removeprefix("bench_"), function


def main(words: list[str], out: Path = OUT) -> int:
    """Measure, print, and write the table after each benchmark; return 1 if one failed or is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--keep", action="store_true", help="today's ratios become those of the last release")
    parser.add_argument("--facts", type=Path, help="a file for what the documentation quotes")
    asked = parser.parse_args(words)
    stored, rows = out / "bench.json", {}
    if asked.modules and stored.exists():
        rows = {row["benchmark"]: row for row in json.loads(stored.read_text())["benchmarks"]}
    failed, facts = 0, {}
    for name, function in benchmarks(asked.modules or list(SPEED)):
        try:
            with threadpool_limits(1):
                measured = function()
        except Exception as error:
            failed += 1
            measured = Measurement(figure=f"FAILED: {_why(error)}", goals=[], data="")
        facts |= {f"{name}/{what}": text for what, text in measured.facts.items()}
        rows[name] = {"benchmark": name, **asdict(measured)}
        write(list(rows.values()), out)
        print(_line(rows[name]), flush=True)
        if name == "speeds" and asked.keep and measured.goals:
            keep(rows[name]["goals"], commit())
        for goal in measured.goals if name == "speeds" else ():
            if not goal.reached:
                print(f"TOO SLOW: {goal.what}: {goal.median:.3g} {goal.unit}, wanted {goal.wanted_words}")
                failed += 1
    if asked.facts and not failed:
        write_facts(asked.facts, facts)
    print(out / "bench.md")
    return 1 if failed else 0


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.check_output(command, cwd=PROJECT_ROOT, text=True).strip()


def _why(error: Exception) -> str:
    said = (error.stderr or "") if isinstance(error, subprocess.CalledProcessError) else ""
    return said.strip().splitlines()[-1] if said.strip() else f"{type(error).__name__}: {error}"


def _line(row: dict) -> str:
    wanted = ", ".join(Goal(**goal).wanted_words for goal in row["goals"])
    data = f" [{row['data']}]" if row["data"] else ""
    return f"{row['benchmark']}{data}: {row['figure']}" + (f" (wanted {wanted})" if wanted else "")


def write(rows: list[dict], out: Path) -> None:
    """Write what was measured: everything as JSON, the table as Markdown."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, one BLAS thread"
    lines = [[row["benchmark"], row["data"], *Goal(**goal).cells()] for row in rows for goal in row["goals"]]
    table = "\n".join("| " + " | ".join(line) + " |" for line in (HEAD, ["---"] * len(HEAD), *lines))
    listed = "\n".join(f"- {_line(row)}" for row in rows)
    content = json.dumps({"machine": machine, "benchmarks": rows}, indent=1, default=str)
    atomic_write(out / "bench.json", content.encode())
    atomic_write(out / "bench.md", "\n\n".join(["# Benchmarks", machine, table, listed, ""]).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
