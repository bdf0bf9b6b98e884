"""A page in Chromium, driven by its developer tools: keys as a person presses them, and print."""

import itertools
import json
import subprocess
import time
from contextlib import contextmanager

import pytest
from websockets.sync.client import connect

from tests.builders import CHROMIUM

_DRAWN = """
location.protocol == "file:" && document.readyState == "complete" &&
(!document.getElementById("chart-data") || !!document.querySelector("#live-chart .role-axis-label"))
"""


class Tab:
    """The one tab of a browser."""

    def __init__(self, socket):
        self.socket, self.numbers = socket, itertools.count(1)

    def send(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def run(self, script):
        """Return the value of an expression, or of its promise."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


@contextmanager
def opened_tab(path, folder, width=1100, height=900):
    """Open a page and wait until its chart is drawn."""
    if not CHROMIUM:
        pytest.skip("no Chromium; tests/install-browser.sh installs one")
    profile = folder / "devtools"
    options = [f"--user-data-dir={profile}", "--remote-debugging-port=0", f"--window-size={width},{height}"]
    browser = subprocess.Popen(
        [*CHROMIUM, *options, path.as_uri()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        port = profile / "DevToolsActivePort"
        until = time.monotonic() + 60
        while not port.exists() or len(port.read_text().split()) < 2:
            assert time.monotonic() < until, "the browser did not start"
            time.sleep(0.1)
        number, address = port.read_text().split()
        with connect(f"ws://127.0.0.1:{number}{address}", max_size=None) as whole:
            tab = Tab(whole)
            (page,) = (t for t in tab.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        place = f"ws://127.0.0.1:{number}/devtools/page/{page['targetId']}"
        with connect(place, max_size=None) as socket:
            tab = Tab(socket)
            while not tab.run(_DRAWN):
                assert time.monotonic() < until, "the page did not load"
                time.sleep(0.1)
            yield tab
    finally:
        browser.terminate()
        browser.wait(timeout=30)
