"""Run the benchmarks of this folder, and print what each found, with a line for each of its goals.

Names of modules as arguments choose some, by default those of speed. One that fails is named in its line, and
the others go on. Seconds are of the processor where one process computes in one thread, so a busy machine
does not count. The status is 1 where a benchmark failed or a quarter of the last release's speed is lost.
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from threadpoolctl import threadpool_limits

from data.store.folders import PROJECT_ROOT
from tests.bench.goals import Measurement, write_facts
from tests.bench.speed import keep

SPEED = ("speed", "commands", "orchestration", "streaming")


def benchmarks(chosen: list[str]) -> Iterator[tuple[str, Callable[..., Measurement]]]:
    """Yield the ``bench_*`` functions of some modules, of all if none is named, with their names."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    for module in chosen or [name for name in modules if not name.startswith(("_", "test_"))]:
        found = importlib.import_module(f"tests.bench.{module}")
        for name, function in sorted(vars(found).items()):
            if name.startswith("bench_"):
                yield name.removeprefix("bench_"), function


def main(words: list[str]) -> int:
    """Measure and print; return 1 if a benchmark failed or is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--keep", action="store_true", help="today's ratios become those of the last release")
    parser.add_argument("--facts", type=Path, help="a file for what the documentation quotes")
    asked = parser.parse_args(words)
    failed, facts = 0, {}
    for name, function in benchmarks(asked.modules or list(SPEED)):
        try:
            with threadpool_limits(1):
                measured = function()
        except Exception as error:
            failed += 1
            print(f"{name}: FAILED: {_why(error)}", flush=True)
            continue
        facts |= {f"{name}/{what}": text for what, text in measured.facts.items()}
        print(f"{name} [{measured.data}]: {measured.figure}", *measured.goals, sep="\n  ", flush=True)
        if name == "speeds":
            failed += sum(not goal.reached for goal in measured.goals)
            if asked.keep:
                keep(measured.goals, commit())
    if asked.facts and not failed:
        write_facts(asked.facts, facts)
    return 1 if failed else 0


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.check_output(command, cwd=PROJECT_ROOT, text=True).strip()


def _why(error: Exception) -> str:
    said = (error.stderr or "") if isinstance(error, subprocess.CalledProcessError) else ""
    return said.strip().splitlines()[-1] if said.strip() else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
