"""A real browser at the standing server: sign-in, Prefect's pages, and a foreign site that attacks it."""

import contextlib
import json
import os
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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


@contextlib.contextmanager
def site_of(folder, page, own):
    """Serve one page, which asks the server at an address, on a port of its own, which is yielded."""
    (folder / "site").mkdir()
    text = Path(__file__).with_name(page).read_text()
    (folder / "site" / "index.html").write_text(text.replace("ADDRESS", own))
    handler = partial(SimpleHTTPRequestHandler, directory=folder / "site")
    site = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield site.server_port
    finally:
        site.shutdown()
        site.server_close()


def see_reports(serving, page):
    """Sign in at the reports, too; the browser keeps name and password."""
    page.open(f"http://{serving.password}@127.0.0.1:{serving.port}/reports/", "report")


def frames_of(tree):
    return [tree["frame"]["url"], *(url for child in tree.get("childFrames", ()) for url in frames_of(child))]


@pytest.mark.parametrize("spy", ["127.0.0.1", "localhost"])
def test_another_site_neither_reads_nor_listens_nor_frames(serving, page, tmp_path, spy):
    own = f"http://127.0.0.1:{serving.port}"
    see_reports(serving, page)
    with site_of(tmp_path, "spy.html", own) as port:
        page.open(f"http://{spy}:{port}/", "found: ")
        assert page.text().split("found: ")[1].strip() == "refused"
        frames = frames_of(page.send("Page.getFrameTree")["frameTree"])
        # Frames of another site are processes of their own, whose address stays what was asked for.
        assert spy == "localhost" or len(frames) == 3
        assert not [url for url in frames if url.startswith(own)]


@pytest.mark.parametrize("attacker", ["127.0.0.1", "localhost"])
def test_another_site_deletes_no_deployment(serving, page, tmp_path, attacker):
    own = f"http://127.0.0.1:{serving.port}"
    see_reports(serving, page)
    before = len(serving.ask("deployments"))
    with site_of(tmp_path, "attack.html", own) as port:
        page.open(f"http://{attacker}:{port}/", "CSRF token")  # where the form leads: Prefect's own check
    assert len(serving.ask("deployments")) == before > 20
    serving.ask("deployments/bulk_delete", {"deployments": None, "limit": 50})  # the owner may
    assert serving.ask("deployments") == []
