"""A small study with a home and reports of its own, and ``dpcost`` on them in processes of its own."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from flows.local_server import own_authentication
from tests.builders import DPCOST, PROJECT
from tests.own_processes import end, end_with_parent, free_port

STUDY = Path(__file__).with_name("small.toml")


def sentence(answer):
    status, out, err = answer
    assert (status, out, err.count("\n")) == (2, "", 1), answer
    assert err.startswith("dpcost: ")
    return err


def until(condition, timeout=60.0):
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def processes_of(home):
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mine = each.environ().get("DPCOST_HOME") == str(home)
            if mine and each.pid != os.getpid() and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


class Standing:
    """``python -m flows.serve`` in a folder with the project's code, which ends with its context."""

    def __init__(self, folder, environment, *options):
        self.folder, self.home, self.port = folder, Path(environment["DPCOST_HOME"]), free_port()
        self.api_url = f"http://127.0.0.1:{self.port}/api"
        self.environment, self.said = environment, ""
        here = [] if "PREFECT_API_URL" in environment else ["--port", str(self.port)]
        words = [sys.executable, "-m", "flows.serve", *here, *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(
            words, cwd=folder, env=environment, preexec_fn=end_with_parent, **pipes
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def wait_until_up(self):
        for line in self.process.stdout:
            self.said += line
            if "deployment run" in line:
                return self
        raise AssertionError(f"it ended before it was up: {self.said}")

    @property
    def password(self):
        return self.environment.get("PREFECT_API_AUTH_STRING") or own_authentication(self.home)

    @property
    def client(self):
        named = {"PREFECT_API_URL": self.api_url, "PREFECT_API_AUTH_STRING": self.password}
        return self.environment | named

    def run_deployment(self, name="study/housing", *options, **parameters):
        given = [word for key, value in parameters.items() for word in ("-p", f"{key}={json.dumps(value)}")]
        words = [sys.executable, "-m", "prefect", "deployment", "run", name, *given, *options]
        asked = {"capture_output": True, "text": True, "check": False, "timeout": 240}
        return subprocess.run(words, env=self.client, cwd=self.folder, **asked)

    def request(self, path, *, method="GET", body=None, **headers):
        request = urllib.request.Request(f"{self.api_url}/{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    @property
    def known(self):
        """The header of a request by the server's owner."""
        return {"Authorization": f"Basic {base64.b64encode(self.password.encode()).decode()}"}

    def request_json(self, path):
        return json.loads(self.request(path, **self.known)[1])

    def ask(self, path, body=None):
        known = {**self.known, "Content-Type": "application/json", "Prefect-Csrf-Client": "test"}
        known["Prefect-Csrf-Token"] = self.request_json("csrf-token?client=test")["token"]
        place, content = path if body else f"{path}/filter", json.dumps(body or {}).encode()
        for _ in range(10):  # as Prefect's client does
            status, answered = self.request(place, method="POST", body=content, **known)
            if status != 503:
                break
            time.sleep(1)
        assert status < 300, answered
        return json.loads(answered)

    def runs_under_way(self):
        return [each for each in processes_of(self.home) if each.pid != self.process.pid]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.said += self.process.communicate(timeout=60)[0]
        return self.process.returncode


class Project:
    """A home, a folder of reports and a small study, and ``dpcost`` on them in processes of its own."""

    def __init__(self, folder, name="one"):
        self.folder = folder
        self.home, self.out = folder / f"home {name}", folder / f"out {name}"
        self.study = folder / "small.toml"
        shutil.copy(STUDY, self.study)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        own = {"DPCOST_HOME": self.home, "PYTHONPATH": PROJECT, "PREFECT_HOME": folder / "client"}
        self.environment = inherited | {name: str(place) for name, place in own.items()}

    def start(self, *arguments, code=DPCOST, stderr=subprocess.PIPE, **environment):
        # A shell may have started the tests with Ctrl-C ignored, which children inherit.
        heed = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
        place = {"cwd": PROJECT, "env": self.environment | environment, "start_new_session": True}
        pipes = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True}
        words = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.Popen(words, preexec_fn=heed, **place, **pipes)

    def dpcost(self, *arguments, status=0, **environment):
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=300)
        assert process.returncode == status, out + err
        assert "Traceback" not in err
        return out, err

    def run(self, *options, **keywords):
        return self.dpcost("run", self.study, "--profile", "smoke", "--out", self.out, *options, **keywords)

    @property
    def results(self):
        import pandas as pd

        return pd.read_parquet(self.out / "small" / "results.parquet")

    def computed(self):
        """Which file each recorded result is in: another one where it was written again."""
        files = sorted((self.home / "cache").glob("*.parquet"), key=lambda path: path.stat().st_mtime)
        found = {path.name.partition(".")[0]: path.stat().st_ino for path in files}  # the last of each name
        return {name: file for name, file in found.items() if (self.home / "cache/records" / name).exists()}

    def same_results(self, other):
        mine, others = (each.out / "small" / "results.parquet" for each in (self, other))
        return mine.read_bytes() == others.read_bytes()
