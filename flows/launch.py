"""Start studies from the command line: check the options, start a server, run, wait for the records."""

import gc
import importlib.util
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.folders import atomic_write, home, private_folder, read_json, read_small
from data.store.output_files import claim_report
from data.store.shared import check_shared_store
from data.tables.sources import file_of
from flows.confirm import confirm_query_of
from flows.local_server import (
    drop_other_variables,
    full_disk,
    has_free_inode,
    home_tag,
    leave,
    prefect_server,
    wait_until_recorded,
)
from flows.lock import exclusive_run
from flows.progress import blocks, say
from flows.server_process import GARBAGE
from flows.studies.find_study import find_study, plugins_left_out
from flows.studies.results import finished_report, folder_of_run, print_headline
from tasks.cache import Again
from tasks.errors import USER_ERRORS, SpecError, require_once
from tasks.report.manifest import MANIFEST
from tasks.report.write import write_index
from tasks.run.datasets import analyst_parquet
from tasks.run_options import RunOptions

INDEX_TITLE = b"<title>What privacy costs: all studies</title>"  # of every index page
ENGINES = "'local', 'dask' or 'dask://HOST:PORT'"

# The minimum free space; a disk that fills up later is reported then.
SPACE_FOR_HOME = 50_000_000
SPACE_FOR_REPORTS = 5_000_000

# Prefect prints tracebacks of failed tasks; the command line prints one sentence instead.
_QUIET = {"PREFECT_LOGGING_LEVEL": "INFO", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


def check_engine(engine: str) -> None:
    if engine == "local":
        return
    if engine != "dask" and not re.fullmatch(r"dask://[^:/]+:\d{1,5}", engine):
        raise SpecError(f"--engine must be {ENGINES}, got {engine!r}")
    if importlib.util.find_spec("distributed") is None:
        raise SpecError(f"--engine {engine} needs the package distributed; install dpcost[dask]")


def check_folder(what: str, folder: Path, space: int, *, private: bool = False) -> None:
    """Refuse a folder that is not writable or almost full, before anything starts."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        if private:
            private_folder(folder)
        atomic_write(probe, b"")
        probe.unlink()
    except (StoreError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
        if folder.exists() and not has_free_inode(folder):
            reason = "its disk has no free inode; delete some files"
        raise SpecError(f"{what} must be a writable folder, got {folder}: {reason}") from None
    free = shutil.disk_usage(folder).free
    if free < space:
        raise SpecError(
            f"{what} needs {space / 1e6:.0f} MB of free space, got {free / 1e6:.1f} MB in {folder}; "
            "free some space or choose another folder"
        )


def check_index(folder: Path) -> None:
    """Refuse a report folder whose index page this program did not write."""
    index = folder / "index.html"
    try:
        foreign = index.exists() and INDEX_TITLE not in read_small(index, 10**8)
    except OSError as error:
        raise SpecError(f"--out holds {index}, which cannot be replaced: {error.strerror}") from None
    if foreign:
        raise SpecError(
            f"--out must be a report folder or a new folder, got {folder}, whose index.html is another page"
        )


def launch(
    studies: Sequence[str],
    options: RunOptions,
    *,
    engine: str = "local",
    command: str = "",
    again: Again | None = None,
) -> Path:
    """Run studies with the same options; return the path of the index page."""
    check_engine(engine)
    studies = list(dict.fromkeys(studies))
    specs = [find_study(study) for study in studies]
    for study, spec in zip(studies, specs, strict=True):
        if spec.analyst_table:
            confirm_query_of(Path(study), spec.analyst_table.source)
    names = [spec.name for spec in specs]
    rule = "studies must differ in name, since it names the report's folder"
    require_once(rule, names, "run one after another with different --out, or rename one")
    check_folder("DPCOST_HOME", home(), SPACE_FOR_HOME, private=True)
    check_folder("--out", options.reports, SPACE_FOR_REPORTS)
    check_index(options.reports)
    check_shared_store()
    prepare_process()
    if note := plugins_left_out(specs):
        say(note)
    with _full_disk_told(), exclusive_run(home()):
        for study, name in zip(studies, names, strict=True):  # a run that just ended may have changed them
            file = Path(study) if study.endswith(".toml") else None
            claim_report(folder_of_run(options.reports, name, options.profile) / name, file)
        for study in studies:
            _check_table(study, options)
        if left := studies if again else _show_stored(studies, options):
            _compute(left, options, command, engine, again)
    if full := full_disk(home()):
        say(f"note: all results are stored, but the record of this run may be incomplete: {full}")
    return options.reports.resolve() / "index.html"


def prepare_process() -> None:
    """Drop variables that are not allowed; let Ctrl-C, SIGTERM and SIGHUP end this process at once.

    File writes are atomic. A signal that is ignored stays ignored.
    """
    drop_other_variables()
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    logging.raiseExceptions = False  # otherwise Prefect prints why its server rejected some log lines
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, lambda *_: leave("interrupted"))


def _show_stored(studies: Sequence[str], options: RunOptions) -> Sequence[str]:
    """Show the reports of the first studies whose results are all stored; return the other studies."""
    for n_shown, study in enumerate(studies):
        page = finished_report(study, options)
        if page is None:
            return studies[n_shown:]
        block_counts = read_json(page.with_name(MANIFEST))["blocks"]
        say(f"{blocks(sum(block_counts.values()))}, all from the cache")
        write_index(page.parents[1])
        print_headline(page)
    return ()


def _compute(
    studies: Sequence[str], options: RunOptions, command: str, engine: str, again: Again | None = None
) -> None:
    """Run studies side by side with a server and workers; a failed study does not stop the others."""
    with (
        prefect_server(home(), meanwhile=_load),
        workers_of(options.workers, engine, leave),
    ):
        from prefect import tags

        from flows import study as flows
        from flows.studies.parameters import TYPED

        gc.freeze()  # loaded objects stay: collecting them repeatedly takes a third of a small run
        gc.set_threshold(GARBAGE)
        gc.enable()
        TYPED.set(command)

        def run() -> Any:
            with tags(home_tag(home()), *(Path(study).stem for study in studies), options.profile):
                if again:
                    rerun_parameters = {"task": again.task, "cell": again.cell, "out": options.out}
                    return flows.rerun(
                        studies[0], **rerun_parameters, offline=options.offline, return_state=True
                    )
                if len(studies) == 1:
                    return flows.study(studies[0], options, return_state=True)
                return flows.studies(list(studies), options, return_state=True)

        run_recorded(run)


def run_recorded(run: Callable[[], Any]) -> Any:
    """Run a flow that returns its state, wait until the server has recorded its tasks; return its result."""
    with ThreadPoolExecutor(1) as thread:  # signals go to the main thread, which waits
        state = thread.submit(copy_context().run, run).result()
    wait_until_recorded(str(state.state_details.flow_run_id))
    _leave_if_cancelled(state)
    return state.result()


def _leave_if_cancelled(state: Any) -> None:
    """End this process if a person canceled or paused its run, and set the final state."""
    from prefect import get_client
    from prefect.states import Cancelled

    from tasks.steps import RunCancelled

    result = state.result(raise_on_failure=False) if state.is_failed() else None
    if state.is_cancelling() or state.is_cancelled():
        result = RunCancelled.of(state)
    if isinstance(result, RunCancelled):
        sentence = str(result)
        ended: Any = Cancelled(message=f"{sentence[0].upper()}{sentence[1:]}.")
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(state.state_details.flow_run_id, ended, force=True)
        leave(sentence)


def workers_of(
    workers: int | None, engine: str, when_lost: Callable[[str], object]
) -> AbstractContextManager[None]:
    """Provide the workers of a cluster, one per core by default."""
    if engine == "local":  # the flow starts processes
        return nullcontext()
    from tasks.dask_cluster import own_cluster, standing_cluster

    if engine.startswith("dask://"):
        return standing_cluster(engine.replace("dask://", "tcp://"), when_lost)
    return own_cluster(workers or os.cpu_count() or 1)


def _load() -> None:
    """Import the flows while the server starts and workers load, which takes longer."""
    from tasks.workers import start_loading

    start_loading()
    import flows.study  # noqa: F401


def check_table_is_no_output(table: Path, report: Path) -> None:
    """Refuse a table in the folder of its report, where a file of the report could replace it."""
    if table.resolve().is_relative_to(report.resolve()):
        raise SpecError(
            f"--out must not be the folder of the study's table, got {report}; move the table or the report"
        )


def _check_table(study: str, options: RunOptions) -> None:
    """Read an analyst's table to report its faults at once."""
    spec = find_study(study)
    if spec.analyst_table is None:
        return
    reports = options.reports
    for folder in {reports, folder_of_run(reports, spec.name, options.profile)}:
        if file := file_of(spec.analyst_table.source):
            check_table_is_no_output(file, folder / spec.name)
    table = analyst_parquet(spec.name, spec.analyst_table)
    spec.check_sizes(table)


@contextmanager
def _full_disk_told() -> Iterator[None]:
    """Report a full disk as the cause of an error, because neither Prefect nor its server does."""
    try:
        yield
    except USER_ERRORS:
        raise
    except Exception:
        if full := full_disk(home()):
            raise StoreError(f"{full}, and run the same command again") from None
        raise
