"""Measure other libraries on the league's tables, and store the results in ``docs/league.json``.

``python -m tests.bench.league [SCRIPT…]`` runs the scripts of ``methods``, all by default, each in an
environment of its own below ``DPCOST_HOME``. ``python -m tests.bench.league.ours`` measures our estimators.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.collections import league as tables
from data.store.folders import PROJECT_ROOT
from dpalgos.errors import InputError
from tasks.cells import Replicates, derive_seed
from tasks.report.manifest import commit
from tasks.run.datasets import fetch, parquet
from tests.bench.league.attack import attack
from tests.bench.league.judging import lengthened, rows_of, shortened
from tests.bench.league.libraries import SCRIPTS, Library, proved
from tests.bench.league.ours import FILE, SETTINGS
from tests.bench.league.whole_table import WholeTable

TRIALS, SEED = 1000, 20191112


def measure(library: Library, epsilons: Sequence[float], repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a results table for each method, table, ε and repetition of a script."""
    for family in dict.fromkeys(name for names in library.families().values() for name in names):
        methods = [title for title, names in library.families().items() if family in names]
        for dataset, settings in tables.problems([family]).items():
            problem = WholeTable(kind="whole_table", dataset=dataset, **settings)
            (draw,) = draws(problem, repetitions)
            library.load(problem.public_table(draw.sample.X, draw.sample.y))
            for title in methods:
                for epsilon in epsilons:
                    row = {"panel": f"{dataset} {family}", "estimator": title, "epsilon": epsilon}
                    yield from fits(library, draw, row, repetitions)


def draws(problem: WholeTable, repetitions: int) -> Iterator[Any]:
    prepared = problem.in_units(pd.read_parquet(parquet(fetch(problem.dataset)).path))
    n = len(prepared.X)
    drawn = Replicates(study="league", panel="", n=n, first=0, count=repetitions, of=repetitions, seed=SEED)
    return problem.draws(drawn, prepared)


def fits(library: Library, draw: Any, row: dict[str, Any], repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each repetition of a fit, or one row with the reason that there is none."""
    n, named = len(draw.sample.X), (row["panel"], row["estimator"], row["epsilon"])
    seeds = [derive_seed(SEED, *named, number) % 2**31 for number in range(repetitions)]
    budget = {"epsilon": row["epsilon"], "delta": n**-2.0}
    try:
        found = library.fits(row["estimator"], seeds, **budget)
        replayed = proved(found[0], **budget)
        errors = [draw.judge(np.array(fit["coef"])) for fit in found]
    except InputError as error:
        yield {**row, "replicate": 0, "status": "refused", "message": str(error)}
        return
    for number, error in enumerate(errors):
        yield {
            **row,
            "replicate": number,
            "status": "ok",
            "message": "",
            "value": error,
            "replayed": replayed,
        }


def audits(library: Library, rows: pd.DataFrame, budget: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Yield what an attack proves, and what the noise that a method shows proves."""
    for title, families in library.families().items():
        found = attack(library, title, families[0], TRIALS, SEED, **budget)
        replayed = rows.loc[
            (rows["estimator"] == title) & (rows["epsilon"] == budget["epsilon"]), "replayed"
        ].max()
        yield {"method": title, **found, **({} if pd.isna(replayed) else {"replayed": float(replayed)})}


def stored(league: dict[str, Any], library: Library, rows: pd.DataFrame, found: list[dict]) -> dict[str, Any]:
    titles = list(library.families())
    panels = {}
    for panel in rows["panel"].unique():
        dataset, family = panel.split(" ")
        name = dataset.removeprefix("league_")
        panels[panel] = (f"{name} (means)", family) if family == "means" else (name, family)
    about = {
        "ours": False,
        "library": ", ".join(library.requires),
        "file": library.script.relative_to(PROJECT_ROOT).as_posix(),
        "versions": library.versions,
    }
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, commit {commit()[:12]}"
    return {
        **league,
        "rows": [row for row in league["rows"] if row["method"] not in titles]
        + rows_of(rows, panels, dict(zip(titles, titles, strict=True))),
        "audits": [each for each in league["audits"] if each["method"] not in titles] + found,
        "methods": {**league["methods"], **dict.fromkeys(titles, about)},
        "machines": {**league["machines"], ", ".join(titles): where},
    }


def main(words: Sequence[str], file: Path = FILE) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.league", description=__doc__)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=f"of {', '.join(SCRIPTS)}; default: all")
    parser.add_argument("--repetitions", type=int, default=10)
    options = parser.parse_args(words)
    budget = {"epsilon": SETTINGS["headline"]["epsilon"], "delta": SETTINGS["headline"]["n"] ** -2.0}
    for name in options.scripts or SCRIPTS:
        library = Library(SCRIPTS[name])
        rows = pd.DataFrame(measure(library, SETTINGS["grid"]["epsilon"], options.repetitions))
        found = list(audits(library, rows, budget))
        league = lengthened(json.loads(file.read_text(encoding="utf-8")))
        content = shortened(stored(league, library, rows, found))
        file.write_text(
            json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
        )
        library.close()
        print(f"{name}: {len(rows)} fits", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
