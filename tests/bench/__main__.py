"""Run every ``bench_*`` function of this folder; write ``reports/out/bench/{bench.json,bench.md}``."""

import importlib
import json
import pkgutil
import platform
import sys
from pathlib import Path

from threadpoolctl import threadpool_limits

from data.store import PROJECT_ROOT, atomic_write

OUT = PROJECT_ROOT / "reports" / "out" / "bench"


def main() -> None:
    chosen = sys.argv[1:]
    rows = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name == "__main__" or (chosen and module.name not in chosen):
            continue
        found = importlib.import_module(f"tests.bench.{module.name}")
        for name, function in sorted(vars(found).items()):
            if name.startswith("bench_"):
                with threadpool_limits(1):
                    row = {"benchmark": name.removeprefix("bench_"), **function()}
                rows.append(row)
                print(_line(row), flush=True)
    machine = f"{platform.machine()}, Python {platform.python_version()}, one BLAS thread"
    atomic_write(OUT / "bench.json", json.dumps({"machine": machine, "benchmarks": rows}, indent=1).encode())
    table = ["| benchmark | figure | wanted |", "|---|---|---|"]
    table += [f"| {row['benchmark']} | {row['figure']} | {row['wanted']} |" for row in rows]
    atomic_write(OUT / "bench.md", ("\n".join([f"# Benchmarks\n\n{machine}\n", *table]) + "\n").encode())
    print(OUT / "bench.md")


def _line(row: dict) -> str:
    return f"{row['benchmark']}: {row['figure']} (wanted {row['wanted']})"


main()
