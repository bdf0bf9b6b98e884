"""``python -m flows.server.worker --pool POOL --name NAME``: runs this project's deployments, and no others.

A worker runs whatever a deployment names: any function of any file, any steps before it, any command. This
one looks first whether it is a deployment of ``prefect.yaml``, as ``make serve`` deploys it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING, Any

import anyio.abc
from prefect.states import Failed
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from flows.record.child_processes import end_with_owner
from flows.server.deploy import PROJECT, listed_deployments

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import WorkerFlowRunResponse

STOP_TIMEOUT = 30.0


class ProjectWorker(ProcessWorker):
    """A process worker that refuses what ``prefect.yaml`` does not name."""

    type = "project"  # a key of its own in Prefect's registry

    async def run(
        self,
        flow_run: FlowRun,
        configuration: ProcessJobConfiguration,
        task_status: anyio.abc.TaskStatus[int] | None = None,
    ) -> ProcessWorkerResult:
        """Run a flow run in a process of its own; a foreign one ends as failed."""
        if problem := await self._problem(flow_run):
            await self.client.set_flow_run_state(flow_run.id, Failed(message=problem), force=True)
            if task_status is not None:
                task_status.started(0)
            return ProcessWorkerResult(status_code=0, identifier="refused")
        return await super().run(flow_run, configuration, task_status)

    async def _submit_scheduled_flow_runs(
        self, flow_run_response: list[WorkerFlowRunResponse]
    ) -> list[FlowRun]:
        """Start runs, but for one whose last process still ends: a later look starts it.

        Prefect's worker dies of it; a person who presses Retry at once has asked for it.
        """
        ending = self._limiter.statistics().borrowers if self._limiter else ()
        ready = [each for each in flow_run_response if each.flow_run.id not in ending]
        return await super()._submit_scheduled_flow_runs(ready)

    async def _problem(self, flow_run: FlowRun) -> str:
        if flow_run.deployment_id is None:
            return "only deployments are run here, and this run has none"
        if self.work_pool.base_job_template != ProcessWorker.get_default_base_job_template():
            return f"the work pool {self.work_pool.name} was changed; start `make serve` again"
        deployment = await self.client.read_deployment(flow_run.deployment_id)
        return foreign(deployment, flow_run.job_variables)


ProjectWorker.type = ProcessWorker.type  # the work pool's


def foreign(deployment: Any, job_variables: dict[str, Any] | None) -> str:
    """Say why a deployment is not one of this project's; nothing if it is."""
    entrypoints = {each["entrypoint"] for each in listed_deployments()}
    if deployment.entrypoint not in entrypoints:
        return f"the entrypoint must be one of prefect.yaml's ({', '.join(sorted(entrypoints))})"
    (step, settings), *more = [item for step in deployment.pull_steps or [{"": {}}] for item in step.items()]
    if more or step.rpartition(".")[2] != "set_working_directory" or settings != {"directory": str(PROJECT)}:
        return f"the one step before a run must be to go to {PROJECT}"
    if deployment.job_variables or job_variables:
        return "job variables (command, environment, folder) are not taken"
    return ""


def main() -> None:
    """Work until told to stop, or until the process that started this one is gone."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.worker", description=main.__doc__)
    parser.add_argument("--pool", required=True, help="the work pool")
    parser.add_argument("--name", required=True, help="the worker's name")
    options = parser.parse_args()
    end_with_owner(STOP_TIMEOUT)
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    worker = ProjectWorker(
        name=options.name,
        work_pool_name=options.pool,
        create_pool_if_not_found=False,
        prefetch_seconds=10,
        limit=1,  # a home has one place for a run: the others wait in the queue, not in memory
    )
    asyncio.run(worker.start())


if __name__ == "__main__":
    main()
