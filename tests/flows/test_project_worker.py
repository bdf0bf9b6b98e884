from types import SimpleNamespace

import pytest

from flows.project_worker import PROJECT, foreign

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
