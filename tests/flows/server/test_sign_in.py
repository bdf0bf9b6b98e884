"""A real browser at the standing server: sign-in, Prefect's pages, and a foreign site that attacks it."""

import base64
import contextlib
import json
import os
import subprocess
import threading
import time
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from small_project import PROJECT, Standing, until
from websockets.sync.client import connect

from tests.builders import CHROMIUM
from tests.own_processes import end_with_parent, free_port

pytestmark = [pytest.mark.server, pytest.mark.browser]

SIGN_IN = """(() => {
  const field = document.querySelector("input");
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, %s);
  field.dispatchEvent(new Event("input", {bubbles: true}));
  document.querySelector("form button").click();
})()"""


class Page:
    """A page in headless Chromium, and the addresses that it requested and was allowed."""

    def __init__(self, folder):
        self._port = port = free_port()
        words = [*CHROMIUM, "--remote-allow-origins=*", f"--user-data-dir={folder}"]
        words += [f"--remote-debugging-port={port}", "--host-resolver-rules=MAP rebound.test 127.0.0.1"]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*words, "about:blank"], preexec_fn=end_with_parent, **pipes)
        self.asked, self._number = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def open(self, address):
        deadline = time.monotonic() + 30
        while not (found := self._pages(self._port)):
            assert time.monotonic() < deadline, "the browser did not start"
            time.sleep(0.2)
        self.connection = connect(found[0]["webSocketDebuggerUrl"], max_size=None, ping_interval=None)
        self.send("Network.enable")
        self.send("Page.navigate", url=address)

    @staticmethod
    def _pages(port):
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer,
        ):
            return [page for page in json.load(answer) if page["type"] == "page"]
        return []

    def send(self, method, **parameters):
        """Send a command; return its result, and note what the page was sent meanwhile."""
        self._number += 1
        self.connection.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.connection.recv(timeout=30))
            if message.get("method") == "Network.responseReceived":
                self.asked.append(message["params"]["response"]["url"])
            if message.get("id") == self._number:
                return message.get("result", {})

    def text(self):
        answer = self.send("Runtime.evaluate", expression="document.body ? document.body.innerText : ''")
        return answer["result"].get("value", "")

    def wait_for(self, word):
        deadline = time.monotonic() + 60
        while word not in self.text():
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.3)


@pytest.fixture
def serving(tmp_path, monkeypatch):
    """Return the standing server with all deployments."""
    if not CHROMIUM:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    environment = os.environ | {"DPCOST_HOME": str(tmp_path / "home")}
    with Standing(PROJECT, environment) as server:
        yield server.wait_until_up()


@pytest.fixture
def page(serving, tmp_path):
    """Return a page of Prefect's, whose reader has signed in."""
    with Page(tmp_path / "profile") as page:
        page.open(f"http://127.0.0.1:{serving.port}")
        page.wait_for("Login")
        page.send("Runtime.evaluate", expression=SIGN_IN % json.dumps("dpcost:wrong"))
        time.sleep(2)
        assert "Dashboard" not in page.text()
        page.send("Runtime.evaluate", expression=SIGN_IN % json.dumps(serving.password))
        page.wait_for("Dashboard")
        yield page


def test_prefects_pages_work_with_sign_in_and_load_nothing_from_elsewhere(serving, page):
    own = f"http://127.0.0.1:{serving.port}"
    options = {"profile": "smoke", "reps": 2}
    assert serving.run_deployment("study/user_level", "--watch", options=options).returncode == 0
    shown = {"deployments": "user_level", "runs": "Completed", "events": "Events"}
    shown |= {"automations": "Automations", "artifacts": "report-user-level"}
    for path, word in shown.items():
        page.send("Page.navigate", url=f"{own}/{path}")
        page.wait_for(word)
    (deployment,) = [each for each in serving.ask("deployments") if each["name"] == "user_level"]
    page.send("Page.navigate", url=f"{own}/deployments/deployment/{deployment['id']}")
    page.wait_for("Schedule")
    page.send("Runtime.evaluate", expression="document.querySelector('[role=switch]').click()")
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
    page.send("Page.navigate", url=f"http://{serving.password}@127.0.0.1:{serving.port}/reports/")
    page.wait_for("report")


def frames_of(tree):
    return [tree["frame"]["url"], *(url for child in tree.get("childFrames", ()) for url in frames_of(child))]


@pytest.mark.parametrize("spy", ["127.0.0.1", "localhost"])
def test_another_site_neither_reads_nor_listens_nor_frames(serving, page, tmp_path, spy):
    own = f"http://127.0.0.1:{serving.port}"
    see_reports(serving, page)
    with site_of(tmp_path, "spy.html", own) as port:
        page.send("Page.navigate", url=f"http://{spy}:{port}/")
        page.wait_for("found: ")
        assert page.text().split("found: ")[1].strip() == "refused"
        frames = frames_of(page.send("Page.getFrameTree")["frameTree"])
        # Frames of another site are processes of their own, whose address stays what was asked for.
        assert spy == "localhost" or len(frames) == 3
        assert not [url for url in frames if url.startswith(own)]


def test_another_name_of_this_machine_is_answered_to_nobody(serving, page):
    see_reports(serving, page)
    for path in ("/", "/reports/", "/api/health"):
        page.send("Page.navigate", url=f"http://rebound.test:{serving.port}{path}")
        page.wait_for("Invalid host header")


@pytest.mark.parametrize("attacker", ["127.0.0.1", "localhost"])
def test_another_site_deletes_no_deployment(serving, page, tmp_path, attacker):
    own, name = f"http://127.0.0.1:{serving.port}", attacker
    see_reports(serving, page)
    before = len(serving.ask("deployments"))
    with site_of(tmp_path, "attack.html", own) as port:
        page.send("Page.navigate", url=f"http://{name}:{port}/")
        page.wait_for("CSRF token")  # where the form leads: Prefect's own check
    assert len(serving.ask("deployments")) == before > 20
    # Even a browser that sent the password with it would be refused.
    token = base64.b64encode(serving.password.encode()).decode()
    about = {"Authorization": f"Basic {token}", "Origin": f"http://{name}:1", "Content-Type": "text/plain"}
    status, _ = serving.request("deployments/bulk_delete", method="POST", body=b"{}", **about)
    assert status == 403
    serving.ask("deployments/bulk_delete", {"deployments": None, "limit": 50})  # the owner may
    assert serving.ask("deployments") == []
