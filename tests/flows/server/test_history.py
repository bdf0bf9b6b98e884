"""Five years of an hourly schedule: what the server and the journal keep of it, and how long they take.

Some runs are real; rows of theirs in Prefect's database are copied for the others, a quarter of a year at a
time, and Prefect's own vacuum deletes what is old between them, as it does every hour. Events, which go after
a week, are copied for the last fortnight alone.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import psutil
import pytest
from small_project import DPCOST, PROJECT, Standing, until

from flows.record.journal import begin
from flows.record.journal import history as history_of

pytestmark = [pytest.mark.server, pytest.mark.slow]

N_RUNS, PER_QUARTER = 43_800, 2_190
N_REAL = int(os.environ.get("DPCOST_SOAK_RUNS", "40"))
RUNS = f"""
import sys
from flows.study import run_study
for _ in range({N_REAL}):
    run_study(study="user_level", profile="smoke", reps=2, out=sys.argv[1])
"""
OF_RUN = ("flow_run_state", "log", "artifact")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")
MEGABYTE = 10**6


def rows(database, table, where):
    found = database.execute(f"select * from {table} where {where}")
    names = [f'"{column[0]}"' for column in found.description]
    return f"{table} ({', '.join(names)})", [dict(zip(names, row, strict=True)) for row in found]


class History:
    """A copier of real runs in a server's database."""

    def __init__(self, path):
        self.path = path
        with sqlite3.connect(path) as database:
            ended = "select id from flow_run where state_type = 'COMPLETED' order by start_time"
            runs = [run for (run,) in database.execute(ended)]
            self.templates = [self._template(database, run) for run in runs[1:]]  # the first computes

    @staticmethod
    def _template(database, run):
        tables = dict([rows(database, "flow_run", f"id = '{run}'")])
        tables |= dict(rows(database, table, f"flow_run_id = '{run}'") for table in OF_RUN)
        own = f"select event_id from event_resources where resource_id = 'prefect.flow-run.{run}'"
        tables |= dict([rows(database, "events", f"id in ({own})")])
        tables |= dict([rows(database, "event_resources", f"event_id in ({own})")])
        return tables

    def record(self, ends):
        """Record a run that ended at each of some times."""
        with sqlite3.connect(self.path, timeout=60) as database:
            for end, template in zip(ends, cycle(self.templates), strict=False):
                for into, values in self._copied(template, end):
                    marks = ", ".join("?" * len(values[0]))
                    database.executemany(
                        f"insert into {into} values ({marks})", [[*v.values()] for v in values]
                    )

    @staticmethod
    def _copied(template, end):
        known = {row['"id"'] for found in template.values() for row in found if '"id"' in row}
        new = {each: str(uuid.uuid4()) for each in known}
        (run,) = next(found for into, found in template.items() if into.startswith("flow_run "))
        shift = end - datetime.fromisoformat(run['"end_time"'])

        def value(name, old):
            if name == '"idempotency_key"':
                return str(uuid.uuid4())
            if isinstance(old, str) and TIME.fullmatch(old):
                return (datetime.fromisoformat(old) + shift).isoformat(" ", "microseconds")
            return new.get(old, old) if isinstance(old, str) else old

        recent = datetime.now(UTC).replace(tzinfo=None) - end < timedelta(days=14)
        for into, found in template.items():
            if found and (recent or not into.startswith("event")):
                yield into, [{name: value(name, old) for name, old in row.items()} for row in found]

    def count(self, table, where="1"):
        time.sleep(1)  # or there is always a reader, and the write-ahead log grows
        with sqlite3.connect(self.path, timeout=60) as database:
            return database.execute(f"select count(*) from {table} where {where}").fetchone()[0]

    @property
    def bytes(self):
        return sum(path.stat().st_size for path in self.path.parent.glob(f"{self.path.name}*"))


def processor_time(process, what):
    times = psutil.Process(process.pid).cpu_times()
    what()
    now = psutil.Process(process.pid).cpu_times()
    return now.user + now.system - times.user - times.system


@pytest.fixture
def serving(tmp_path):
    environment = os.environ | {
        "DPCOST_HOME": str(tmp_path / "home"),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "5",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_BATCH_SIZE": "2000",
    }
    server = Standing(PROJECT, environment).wait_until_up()
    yield server
    server.stop()


def test_five_years_of_an_hourly_schedule_stay_small_and_quick(serving, tmp_path):
    found = {"PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(Path(serving.home, "cache", "records"))}
    command = [sys.executable, "-c", RUNS, str(tmp_path / "out")]
    subprocess.run(command, cwd=PROJECT, env=serving.client | found, check=True)
    history, largest = History(Path(serving.home, "prefect", "prefect.db")), 0
    assert len(history.templates) == N_REAL - 1
    now = datetime.now(UTC).replace(tzinfo=None)
    old = f"start_time < '{now - timedelta(days=91)}'"
    for quarter in range(N_RUNS // PER_QUARTER, 0, -1):
        hours = range(quarter * PER_QUARTER, (quarter - 1) * PER_QUARTER, -1)
        history.record(now - timedelta(hours=hour) for hour in hours)
        until(lambda: history.count("flow_run", old) == 0, 300)
        largest = max(largest, history.bytes)
    until(lambda: history.count("events", f"occurred < '{now - timedelta(days=8)}'") == 0, 300)
    n_kept = history.count("flow_run", "state_type = 'COMPLETED'")
    assert PER_QUARTER - 60 <= n_kept <= PER_QUARTER + N_REAL
    assert history.count("log", "flow_run_id not in (select id from flow_run)") == 0
    assert history.count("artifact", "flow_run_id not in (select id from flow_run)") == 0

    entry = {"study": "user_level", "profile": "smoke", "status": "completed"}
    times = [(now - timedelta(hours=hour)).isoformat() for hour in range(N_RUNS)]
    entries = [{**entry, "flow_run_id": str(uuid.uuid4()), "started": at, "ended": at} for at in times]
    journal = Path(serving.home, "journal.json")
    journal.write_text(json.dumps(entries))
    of_journal = journal.stat().st_size
    begin(serving.home, uuid.uuid4(), "user_level", "smoke", own_data=False)
    assert len(history_of(serving.home)) < PER_QUARTER
    status = [sys.executable, "-c", DPCOST, "status"]
    before = os.times()
    subprocess.run(status, cwd=PROJECT, env=serving.client, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    of_status = after.children_user + after.children_system - before.children_user - before.children_system

    def page():
        sort = {"sort": "START_TIME_DESC", "limit": 50}
        serving.ask("flow_runs/paginate", sort)
        serving.ask("flow_runs/count", {"flow_runs": {}})
        serving.ask("flow_runs/filter", sort)

    of_page = processor_time(serving.process, page)
    print(
        f"{N_REAL} real runs of {N_RUNS:,}: {n_kept} kept, database {largest / MEGABYTE:.0f} MB at most, "
        f"journal {of_journal / MEGABYTE:.1f} MB, status {of_status:.2f} s, page {of_page:.2f} s"
    )
    assert largest <= 500 * MEGABYTE
    assert of_journal <= 20 * MEGABYTE
    assert of_status <= 1
    assert of_page <= 1
