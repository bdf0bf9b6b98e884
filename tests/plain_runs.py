"""Runs of studies by the flow itself, with its tasks called as functions: without Prefect's server."""

from contextlib import nullcontext
from unittest.mock import patch

from prefect import State, Task

from flows import study as flows
from tasks import audit
from tasks.report.write import write_index


class Done:
    """The future of a task that has run."""

    def __init__(self, returned):
        self.is_cached = isinstance(returned, State)
        self.returned = returned.data if self.is_cached else returned

    def result(self):
        return self.returned


def run_plainly(study, options):
    """Run a study; return its page and how many of its tasks found their result stored."""
    done = []

    def submit(task, *arguments, **options):
        done.append(Done(task.fn(*arguments, **options)))
        return done[-1]

    def finished(futures):
        return [future.result() for future in futures]

    with (
        patch.object(Task, "submit", submit),
        patch.object(Task, "__call__", lambda task, *args, **kwargs: task.fn(*args, **kwargs)),
        patch.object(flows, "finished", finished),
        patch.object(audit, "wait", lambda futures: None),
        patch.object(flows, "shown", lambda *_: nullcontext()),
    ):
        page = flows.study.fn(str(study), options)
    write_index(page.parents[1])
    return page, sum(each.is_cached for each in done)
