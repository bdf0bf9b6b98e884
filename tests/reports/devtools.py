"""A page in Chromium, driven by its developer tools: keys as a person presses them, and print."""

import itertools
import json
import subprocess
from contextlib import contextmanager

import pytest
from websockets.sync.client import connect

from tests.builders import CHROMIUM
from tests.flows.small_project import until
from tests.own_processes import end_with_parent

_DRAWN = """
location.protocol == "file:" && document.readyState == "complete" &&
(!document.getElementById("chart-data") || !!document.querySelector("#live-chart .role-axis-label"))
"""


class Tab:
    """The one tab of a browser, and the addresses from which it was sent something."""

    def __init__(self, socket):
        self.socket, self.numbers, self.asked = socket, itertools.count(1), []

    def send(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("method") == "Network.responseReceived":
                self.asked.append(message["params"]["response"]["url"])
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def run(self, script):
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def text(self):
        return self.run("document.body ? document.body.innerText : ''")

    def open(self, address, word):
        """Open a page and wait until it shows a word."""
        self.send("Page.navigate", url=address)
        until(lambda: word in self.text())


@contextmanager
def browser(address, folder, *options):
    """Open an address in a browser of its own; give its tab."""
    if not CHROMIUM:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    profile = folder / "devtools"
    words = [*CHROMIUM, f"--user-data-dir={profile}", "--remote-debugging-port=0", *options, address]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, preexec_fn=end_with_parent, **quiet)
    try:
        port = profile / "DevToolsActivePort"
        until(lambda: port.exists() and len(port.read_text().split()) == 2)
        number, place = port.read_text().split()
        with connect(f"ws://127.0.0.1:{number}{place}", max_size=None) as whole:
            targets = Tab(whole).send("Target.getTargets")["targetInfos"]
            (page,) = (each for each in targets if each["type"] == "page")
        place = f"ws://127.0.0.1:{number}/devtools/page/{page['targetId']}"
        with connect(place, max_size=None, ping_interval=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def opened_tab(path, folder, width=1100, height=900):
    """Open a page and wait until its chart is drawn."""
    with browser(path.as_uri(), folder, f"--window-size={width},{height}") as tab:
        until(lambda: tab.run(_DRAWN))
        yield tab
