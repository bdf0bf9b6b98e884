"""The tasks of a run as Prefect runs them: names on its pages, retries, and the cache.

A result is found by the key that the flow computed, the name of its record file in the home's folder of
records. There is no lock: one run at a time uses a home.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from prefect import Task, runtime
from prefect.cache_policies import CachePolicy
from prefect.futures import PrefectFuture
from prefect.utilities.annotations import quote

from data.fetch.raw_files import RawFile
from flows.artifacts import ProgressArtifact
from flows.record.progress import progress, say
from flows.studies.steps import Job
from tasks.cache import Record, at_hand, find_record, shared_record
from tasks.ingest import analyst_parquet, fetch, parquet
from tasks.problems.problem import Block
from tasks.run.resources import listening
from tasks.turns import SECONDS_TO_STOP, STOPPED, TURN, end_if_stopped

_RETRIES = 1  # of a fetch; the download itself has tried three times by then

_RUN_NAMES = {
    "fetch": "fetch {dataset}",
    "parquet": "parquet {raw.dataset}",
    "prepare": "prepare {table.name}",
    "run_block": "{block.title}",
    "data_limit": "data_limit {block.problem.source}",
    "audit": "audit {cell.key}",
    "collect": "collect results",
    "exhibit": "exhibits of {block.replicates.study}",
    "render": "render {spec.name}",
}


@dataclass
class ByKey(CachePolicy):
    """Cache on the task's own ``key`` argument, a `tasks.cache.CacheKey`."""

    def compute_key(
        self, task_ctx: Any, inputs: dict[str, Any], flow_parameters: Any, **_: Any
    ) -> str | None:
        """Return the key's name; write a record of the shared store so that Prefect finds it."""
        key = str(inputs["key"])
        if find_record(key) is None and (record := shared_record(key)):
            task_ctx.result_store.write(record, key=key)
        return key


class PrefectTasks:
    """Runs each step of a run as a task of this flow run; `n_runs` counts them."""

    def __init__(self) -> None:
        self.n_runs = 0

    def say(self, sentence: str) -> None:
        say(sentence)

    def bring(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.n_runs += 1
        return as_task(function)(*arguments, **options)

    def run(self, function: Callable[..., Record], *arguments: Any, again: bool = False) -> Record:
        """Run a task in the main thread; a stored result is made again if its file is gone or damaged."""
        self.n_runs += 1
        record: Record = as_task(function, again)(*arguments)
        return record if again or at_hand(record) else self.run(function, *arguments, again=True)

    def run_all(self, function: Callable[..., Record], jobs: Sequence[Job], study: str = "") -> list[Record]:
        """Run a task with each of the arguments in parallel, the longest first; return records in order.

        The longest of all goes before those of earlier studies, too: the end of a command would wait for it.
        """
        records: dict[int, Record] = {}
        with _shown(study, jobs) as advance:
            order = sorted(range(len(jobs)), key=lambda index: -jobs[index].work)
            turn = TURN.set(0)
            submitted = {self._submitted(function, jobs[index]): index for index in order[:1]}
            TURN.reset(turn)
            submitted |= {self._submitted(function, jobs[index]): index for index in order[1:]}
            for future in _as_completed(submitted):
                index, record = submitted[future], future.result()
                from_cache = future.state.name == "Cached"
                if not at_hand(record):
                    whole = jobs[index]._replace(again=True, only=None)
                    from_cache, record = False, self._submitted(function, whole).result()
                records[index] = record
                advance(jobs[index], from_cache)
        return [records[index] for index in range(len(jobs))]

    def _submitted(self, function: Callable[..., Record], job: Job) -> "PrefectFuture[Record]":
        self.n_runs += 1
        # No future of another task is in a block, so Prefect need not look for some among its cells.
        arguments = [quote(each) if isinstance(each, Block) else each for each in job.arguments]
        only = {} if job.only is None else {"only": job.only}
        future: PrefectFuture[Record] = as_task(function, job.again).submit(*arguments, **only)
        return future


def _as_completed(futures: Iterable["PrefectFuture[Record]"]) -> Iterator["PrefectFuture[Record]"]:
    """Yield futures as they complete; end by KeyboardInterrupt, in whatever thread, when the command does."""
    completed: SimpleQueue[PrefectFuture[Record]] = SimpleQueue()
    left = set(futures)
    for future in left:
        future.add_done_callback(completed.put)
    while left:
        with suppress(Empty):
            future = completed.get(timeout=SECONDS_TO_STOP)
            if not STOPPED.is_set():
                left.discard(future)
                yield future
        end_if_stopped()


@contextmanager
def _shown(study: str, jobs: Sequence[Job]) -> Iterator[Callable[[Job, bool], None]]:
    """Show how many blocks of a study are finished, here and on the server; nothing without a study."""
    if not study:
        yield lambda job, from_cache: None
        return
    on_server = ProgressArtifact(study, len(jobs))
    works = {job.key.name: job.work for job in jobs}
    with (
        progress(len(jobs), sum(works.values())) as here,
        listening(lambda name, share: here.within(name, share * works.get(name, 0))),
    ):

        def advance(job: Job, from_cache: bool) -> None:
            here.advance(job.work, from_cache=from_cache, name=job.key.name)
            on_server.advance()

        yield advance


@cache
def as_task(function: Callable[..., Any], again: bool = False) -> Any:
    """Return a function as a task; `again` computes a result that is stored, too."""
    name = function.__name__
    about: dict[str, Any] = {"name": name, "task_run_name": _RUN_NAMES.get(name)}
    if function is fetch:
        return Task(_fetch, persist_result=False, **about, **_RETRIED)
    if function in (parquet, analyst_parquet):
        return Task(function, persist_result=False, **about)
    return Task(
        function,
        cache_policy=ByKey(),
        persist_result=True,
        result_serializer="json",
        refresh_cache=again,
        **about,
    )


def _fetch(dataset: str, offline: bool = False, progress: bool = False, again: bool = False) -> RawFile:
    last_try = (runtime.task_run.run_count or 1) > _RETRIES
    return fetch(dataset, offline, progress=progress, again=again, last_try=last_try)


_RETRIED: Any = {
    "retries": _RETRIES,
    "retry_delay_seconds": 2,
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": lambda task, run, state: bool(
        getattr(state.result(raise_on_failure=False), "transient", False)
    ),
}
