"""Runs of studies by the flow itself, with its tasks called as functions: without Prefect's server."""

from unittest.mock import patch

from prefect import State, Task
from prefect.states import Completed

from flows import study as flows


class Done:
    """The future of a task that has run."""

    def __init__(self, returned):
        self.state = returned if isinstance(returned, State) else Completed(data=returned)

    @property
    def is_cached(self):
        return self.state.name == "Cached"

    def result(self):
        return self.state.data


def run_plainly(study, options):
    """Run a study; return its page and how many of its tasks found their result stored."""
    done = []

    def submit(task, *arguments, **options):
        done.append(Done(task.fn(*arguments, **options)))
        return done[-1]

    def call(task, *arguments, return_state=False, **options):
        return submit(task, *arguments, **options) if return_state else task.fn(*arguments, **options)

    def finished(futures, *_):
        return [future.result() for future in futures]

    with (
        patch.object(Task, "submit", submit),
        patch.object(Task, "__call__", call),
        patch.object(flows, "finished", finished),
        patch.object(flows, "attach_report", lambda *_: None),
    ):
        page = flows.run_study(str(study), options)
    return page, sum(each.is_cached for each in done)
