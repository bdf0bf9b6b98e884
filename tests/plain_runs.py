"""Runs of studies by the flow itself, with its tasks called as functions: without Prefect's server."""

import inspect
from types import SimpleNamespace
from unittest.mock import patch

from prefect import State, Task
from prefect.filesystems import LocalFileSystem
from prefect.results import ResultStore
from prefect.states import Completed
from prefect.transactions import transaction

from data.store.folders import home
from flows import study as flows
from tasks.cache import RECORDS, Again
from tasks.kept import Key, References


class Done:
    """The future of a task that has run."""

    def __init__(self, returned, name="Completed"):
        self.returned = returned.data if isinstance(returned, State) else returned
        self.state = Completed(name=name, data=SimpleNamespace(is_persisted=True))

    def result(self):
        return self.returned


def call_task(task, *arguments, **keywords):
    """Call a task, with Prefect's transaction if its result is kept; futures become what they return."""
    arguments = [each.result() if isinstance(each, Done) else each for each in arguments]
    if not isinstance(task.cache_policy, Key):
        return Done(task.fn(*arguments, **keywords))
    inputs = inspect.signature(task.fn).bind(*arguments, **keywords).arguments
    key = task.cache_policy.compute_key(SimpleNamespace(task=task), inputs, {})
    records = LocalFileSystem(basepath=home() / RECORDS)
    store = ResultStore(result_storage=records, serializer=References(), cache_result_in_memory=False)
    with transaction(key=key, store=store, overwrite=bool(task.refresh_cache)) as kept:
        if kept.is_committed():
            return Done(kept.read().result, "Cached")
        made = task.fn(*arguments, **keywords)
        kept.stage(made)
    return Done(made)


def run_plainly(study, options, again=None):
    """Run a study; return its page and how many of its tasks found their result stored."""
    done = []

    def submit(task, *arguments, **keywords):
        done.append(call_task(task, *arguments, **keywords))
        return done[-1]

    def call(task, *arguments, return_state=False, **keywords):
        future = submit(task, *arguments, **keywords)
        return future if return_state else future.result()

    def finished(_, futures, *__):
        stored = sum(future.state.name == "Cached" for future in futures)
        return [future.result() for future in futures], stored

    with (
        patch.object(Task, "submit", submit),
        patch.object(Task, "__call__", call),
        patch.object(flows, "finished", finished),
        patch.object(flows, "attach_report", lambda *_: None),
    ):
        page = flows.run_study(str(study), options, again or Again())
    return page, sum(each.state.name == "Cached" for each in done)
