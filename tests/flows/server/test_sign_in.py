"""A real browser at the standing server: sign-in and Prefect's pages."""

import json
import os
import time

import pytest
from small_project import Standing, until

from tests.builders import PROJECT
from tests.reports.devtools import browser

pytestmark = [pytest.mark.server, pytest.mark.browser]

SIGN_IN = """(() => {
  const field = document.querySelector("input");
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, %s);
  field.dispatchEvent(new Event("input", {bubbles: true}));
  document.querySelector("form button").click();
})()"""


@pytest.fixture
def serving(tmp_path, monkeypatch):
    environment = os.environ | {"DPCOST_HOME": str(tmp_path / "home")}
    with Standing(PROJECT, environment) as server:
        yield server.wait_until_up()


@pytest.fixture
def page(serving, tmp_path):
    with browser("about:blank", tmp_path) as page:
        page.send("Network.enable")
        page.open(f"http://127.0.0.1:{serving.port}", "Login")
        page.run(SIGN_IN % json.dumps("dpcost:wrong"))
        time.sleep(2)
        assert "Dashboard" not in page.text()
        page.run(SIGN_IN % json.dumps(serving.password))
        until(lambda: "Dashboard" in page.text())
        yield page


def test_prefects_pages_work_with_sign_in_and_load_nothing_from_elsewhere(serving, page):
    own = f"http://127.0.0.1:{serving.port}"
    options = {"profile": "smoke", "reps": 2}
    assert serving.run_deployment("study/user_level", "--watch", options=options).returncode == 0
    shown = {"deployments": "user_level", "runs": "Completed", "events": "Events"}
    shown |= {"automations": "Automations", "artifacts": "report-user-level"}
    for path, word in shown.items():
        page.open(f"{own}/{path}", word)
    (deployment,) = [each for each in serving.ask("deployments") if each["name"] == "user_level"]
    page.open(f"{own}/deployments/deployment/{deployment['id']}", "Schedule")
    page.run("document.querySelector('[role=switch]').click()")
    until(lambda: not serving.request_json(f"deployments/{deployment['id']}")["schedules"][0]["active"])
    elsewhere = [url for url in page.asked if not url.startswith((own, "data:", "blob:"))]
    assert page.asked
    assert elsewhere == []
