"""Fit every method to every table at every ε, attack each, and merge the results of several machines.

Time is shared by a rule that knows no result. Each method is first fitted once, to the smallest table. The
quickest by that begins; each has the time that is left divided by the methods that are, so that what quick
ones leave goes to slow ones in equal parts. Within its time a method takes the tables from small to large,
the families in turns, at ε = 1 first; attacks have what fits leave, and two fifths at least. What a method
does not come to is no result, and counts for and against nobody.
"""

import os
import platform
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from flows.league.environments import installed, interpreter
from flows.league.journal import Journal
from flows.league.method_run import MethodRun, ScaledTable
from flows.league.scale import scale_of
from flows.league.tables import LeagueTable, load_table, means_of
from flows.league.worker_process import Method
from flows.progress import say
from tasks.errors import SpecError
from tasks.report.manifest import commit

Row = dict[str, Any]


def league(
    methods: Sequence[Method],
    names: Sequence[str],
    *,
    minutes: float,
    folder: Path,
    seed: int = 0,
    trials: int = 500,
) -> Row:
    """Return the results of all methods on all tables; a run that was interrupted goes on where it was."""
    loaded = [found for name in names if (found := _loaded(name, folder)) is not None]
    tables = {table.name: table for one in loaded for table in (one, means_of(one))}
    for requires in dict.fromkeys(method.requires for method in methods):
        with suppress(SpecError):  # each of its methods will say so
            interpreter(requires, folder)
    cores, deadline, code = os.cpu_count() or 1, time.monotonic() + 60 * minutes, commit()
    journal = Journal(folder / "journal", [*tables, str(seed), str(trials), code])
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(cores) as pool:
        entries = [ScaledTable(t, Path(place) / f"{t.name}.npz", scale_of(t)) for t in _in_turns(tables)]
        for entry in entries:
            np.savez(entry.path, **entry.table.arrays())
        runs = [MethodRun(method, entries, folder, journal, seed) for method in methods]
        try:
            paces = dict(zip(methods, pool.map(MethodRun.pace, runs), strict=True))
            waiting = sorted(runs, key=lambda run: paces[run.method])

            def of_next(run: MethodRun) -> Row:
                left = (deadline - time.monotonic()) * min(cores, len(waiting)) / len(waiting)
                waiting.remove(run)
                return run.all(left, trials)

            parts = list(pool.map(of_next, list(waiting)))
        except BaseException:  # Ctrl-C: the journal keeps what is done
            for run in runs:
                run.stop()
            raise
    journal.finish()
    return {
        "rows": [row for part in parts for row in part["rows"]],
        "audits": [part["audit"] for part in parts],
        "methods": {m.name: {**m.about(), "versions": installed(m.requires, folder)} for m in methods},
        "tables": {
            entry.table.name: {
                "family": entry.table.family,
                "source": entry.table.source,
                "n": len(entry.table.X),
                "d": entry.table.X.shape[1],
                "developed": entry.table.developed,
                "constant": entry.scale.constant,
            }
            for entry in entries
        },
        "machines": [
            f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}, "
            f"{minutes:g} minutes, commit {code[:12]}"
        ],
    }


def _in_turns(tables: dict[str, LeagueTable]) -> list[LeagueTable]:
    """Return tables from small to large, the smallest of each family first."""
    order = sorted(tables.values(), key=lambda table: table.X.size)
    place = {t.name: sum(u.family == t.family for u in order[:k]) for k, t in enumerate(order)}
    return sorted(order, key=lambda table: place[table.name])


def merged(results: Sequence[Row]) -> Row:
    """Return the results of several machines as one; the first counts, of attacks the first that proved."""
    whole: Row = {"rows": [], "audits": [], "methods": {}, "tables": {}, "machines": []}
    results = [
        {**one, "audits": [audit for audit in one["audits"] if _is_best(audit, results)]} for one in results
    ]
    for one in results:
        for part, key in (("rows", ("table", "method", "epsilon")), ("audits", ("method",))):
            known = {tuple(row[name] for name in key) for row in whole[part]}
            whole[part] += [row for row in one[part] if tuple(row[name] for name in key) not in known]
        for part in ("methods", "tables"):
            whole[part] = {**one[part], **whole[part]}
        whole["machines"] += [machine for machine in one["machines"] if machine not in whole["machines"]]
    return whole


def _is_best(audit: Row, results: Sequence[Row]) -> bool:
    """Tell whether an attack proved something, or none on its method did."""
    others = [other for one in results for other in one["audits"] if other["method"] == audit["method"]]
    return "proved" in audit or not any("proved" in other for other in others)


def _loaded(name: str, folder: Path) -> LeagueTable | None:
    try:
        return load_table(name, folder)
    except SpecError as error:
        say(f"note: {error}; it is left out")
        return None
