"""A browser at the standing server: it asks for the password, sends it, and sends nothing elsewhere."""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request

import pytest
from websockets.sync.client import connect

from flows.server.prefect_server import answers, free_port, own_authentication, server_process

pytestmark = [pytest.mark.server, pytest.mark.browser]

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
SIGN_IN = """(() => {
  const field = document.querySelector("input");
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, %s);
  field.dispatchEvent(new Event("input", {bubbles: true}));
  document.querySelector("form button").click();
})()"""


class Page:
    """A page in headless Chromium, and the addresses that it requested and was allowed."""

    def __init__(self, address, folder):
        port = free_port()
        self.process = subprocess.Popen(
            [
                *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-sync", "--remote-allow-origins=*"),
                *(f"--user-data-dir={folder}", f"--remote-debugging-port={port}", "about:blank"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.asked, self._number = [], 0
        deadline = time.monotonic() + 30
        while not (found := self._pages(port)):
            assert time.monotonic() < deadline, "the browser did not start"
            time.sleep(0.2)
        self.connection = connect(found[0]["webSocketDebuggerUrl"], max_size=None)
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


def test_the_pages_ask_for_the_password_and_take_it_and_load_nothing_from_elsewhere(home, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    server = server_process(home, port, os.environ)
    server.start(ready=lambda: answers(f"{address}/api"))
    try:
        page = Page(address, tmp_path / "profile")
        try:
            page.wait_for("Login")
            page.send("Runtime.evaluate", expression=SIGN_IN % json.dumps("dpcost:wrong"))
            time.sleep(2)
            assert "Dashboard" not in page.text()
            page.send("Runtime.evaluate", expression=SIGN_IN % json.dumps(own_authentication(home)))
            page.wait_for("Dashboard")
        finally:
            page.process.kill()
            page.process.wait()
        elsewhere = [url for url in page.asked if not url.startswith((address, "data:", "blob:"))]
        assert page.asked
        assert elsewhere == []
    finally:
        server.stop()
