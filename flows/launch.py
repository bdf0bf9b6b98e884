"""Start studies from the command line: check the options, bring a server, run, wait for the records."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.registry import get_dataset
from data.store import home
from flows import journal
from flows.progress import say
from flows.server import prefect_server, wait_until_recorded
from tasks.spec import PROFILES, SpecError, StudySpec

ENGINES = "'local', 'dask' or 'dask://HOST:PORT'"

# Prefect prints tracebacks of failed tasks; the command line says one sentence instead.
_QUIET = {"PREFECT_LOGGING_LEVEL": "INFO", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


class OptionError(SpecError):
    """An option of the command line is wrong."""


def check_options(options: dict[str, Any], *, workers: int | None, engine: str, out: Path | None) -> None:
    """Refuse wrong options before anything is started."""
    if options["profile"] not in PROFILES:
        import difflib

        nearest = difflib.get_close_matches(options["profile"], PROFILES, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise OptionError(f"--profile must be one of {', '.join(PROFILES)}, got {options['profile']!r}{hint}")
    for name, value, least in (
        ("--reps", options.get("reps"), 1),
        ("--workers", workers, 1),
        ("--seed", options.get("seed"), 0),
    ):
        if value is not None and value < least:
            raise OptionError(f"{name} must be a whole number of at least {least}, got {value}")
    if engine not in ("local", "dask") and not engine.startswith("dask://"):
        raise OptionError(f"--engine must be {ENGINES}, got {engine!r}")
    if out is not None and out.exists() and not out.is_dir():
        raise OptionError(f"--out must be a folder, got the file {out}")


def check_sizes(spec: StudySpec) -> None:
    """Refuse a study whose sizes or columns its dataset does not have."""
    dataset = get_dataset(spec.dataset)
    if max(spec.grid.n) > dataset.n_rows:
        raise SpecError(
            f"{spec.name}: n must be at most the {dataset.n_rows:,} rows of {dataset.name}, "
            f"got {max(spec.grid.n)}; take the larger sizes out of the grid"
        )
    for name in (spec.response, *spec.covariates):
        dataset.column(name)


def launch(
    specs: Sequence[StudySpec],
    studies: Sequence[str],
    options: dict[str, Any],
    *,
    workers: int,
    engine: str,
    out: Path | None,
) -> str:
    """Run studies one after another and return the path of the index page."""
    for spec in specs:
        check_sizes(spec)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    given = {name: value for name, value in options.items() if value is not None}
    with prefect_server(home(), say=say) as api_url:
        from flows.study import run_study

        journal.mark_dead_runs(home(), api_url, say)
        flow = run_study.with_options(task_runner=_task_runner(engine, workers))
        outcome: dict[str, Any] = {}
        try:
            for study in studies:
                outcome = flow(study=study, out=None if out is None else str(out), **given)
                wait_until_recorded(api_url, outcome["flow_run_id"], outcome["n_task_runs"])
                say(f"{outcome['headline']}\nreport: {outcome['report']}")
        finally:
            _deliver_logs()
    return str(outcome["index"])


def _deliver_logs() -> None:
    """Send what is still queued while the server is there: afterwards Prefect would wait a minute for it."""
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=5)


def _task_runner(engine: str, workers: int) -> Any:
    if engine == "local":
        from prefect.task_runners import ThreadPoolTaskRunner

        return ThreadPoolTaskRunner(max_workers=workers)
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise OptionError("--engine dask needs the package prefect-dask; install dpcost[dask]") from None
    if engine == "dask":
        return DaskTaskRunner(
            cluster_kwargs={"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        )
    return DaskTaskRunner(address=f"tcp://{engine.removeprefix('dask://')}")
