import asyncio
from types import SimpleNamespace
from uuid import uuid4

import anyio
import pytest
from prefect.workers.process import ProcessWorker

from flows.server.worker import PROJECT, ProjectWorker, foreign

STEP = "prefect.deployments.steps.set_working_directory"
OWN = {
    "entrypoint": "flows/study.py:run_study",
    "pull_steps": [{STEP: {"directory": str(PROJECT)}}],
    "job_variables": {},
}
SHELL = {"prefect.deployments.steps.run_shell_script": {"script": "id"}}

FOREIGN = {
    "another file": ({"entrypoint": "/tmp/evil.py:flow"}, None, "entrypoint"),
    "another function": ({"entrypoint": "flows/study.py:main"}, None, "entrypoint"),
    "a path to the same": ({"entrypoint": "../x/flows/study.py:run_study"}, None, "entrypoint"),
    "no entrypoint": ({"entrypoint": None}, None, "entrypoint"),
    "no step": ({"pull_steps": None}, None, "step"),
    "another folder": ({"pull_steps": [{STEP: {"directory": "/tmp"}}]}, None, "step"),
    "a shell script": ({"pull_steps": [SHELL]}, None, "step"),
    "a shell script after it": ({"pull_steps": [*OWN["pull_steps"], SHELL]}, None, "step"),
    "a shell script beside it": ({"pull_steps": [OWN["pull_steps"][0] | SHELL]}, None, "step"),
    "a step with more settings": (
        {"pull_steps": [{STEP: {"directory": str(PROJECT), "requires": "evil"}}]},
        None,
        "step",
    ),
    "a deployment's command": ({"job_variables": {"command": "id"}}, None, "job variables"),
    "a run's environment": ({}, {"env": {"PYTHONPATH": "/tmp"}}, "job variables"),
}


@pytest.mark.parametrize("variables", [None, {}])
def test_the_projects_deployment_is_run(variables):
    assert foreign(SimpleNamespace(**OWN), variables) == ""


@pytest.mark.parametrize("case", FOREIGN)
def test_any_other_deployment_is_refused_with_the_reason(case):
    changed, variables, reason = FOREIGN[case]
    assert reason in foreign(SimpleNamespace(**OWN | changed), variables)


def test_a_run_whose_last_process_still_ends_is_started_by_a_later_look(monkeypatch):
    """It would end the worker: Prefect counts a run twice that is put back at once."""
    ending, other = (SimpleNamespace(flow_run=SimpleNamespace(id=uuid4())) for _ in range(2))
    submitted = []

    async def submit(self, flow_run_response):
        submitted.append(flow_run_response)

    async def look():
        worker = ProjectWorker(name="one", work_pool_name="dpcost", limit=1)
        worker._limiter = anyio.CapacityLimiter(1)
        worker._limiter.acquire_on_behalf_of_nowait(ending.flow_run.id)
        await worker._submit_scheduled_flow_runs([ending, other])
        worker._limiter.release_on_behalf_of(ending.flow_run.id)
        await worker._submit_scheduled_flow_runs([ending, other])

    monkeypatch.setattr(ProcessWorker, "_submit_scheduled_flow_runs", submit)
    asyncio.run(look())
    assert submitted == [[other], [ending, other]]
