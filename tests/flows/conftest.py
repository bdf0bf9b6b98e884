"""Shared by the tests of the flows."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small_project import Project

from data.store.processes import ProcessIdentity
from flows.server.postgres import postgres_programs
from flows.server.processes import ServerError

with contextlib.suppress(ImportError):
    # Prefect closes every log handler when it sets its own up. absl's, which comes with dp-accounting, would
    # then close the stream it found at its import, and that is pytest's.
    from absl import logging as absl_logging

    absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture(params=[(), ("--postgres",)], ids=["sqlite", "postgresql"])
def database(request):
    """The options of a standing server, with either database that is installed."""
    if request.param:
        try:
            postgres_programs()
        except ServerError as missing:
            pytest.skip(str(missing))
    return request.param


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Return a project whose small study has run at profile smoke, for reading only."""
    project = Project(tmp_path_factory.mktemp("undisturbed"))
    project.run()
    return project


@pytest.fixture(scope="session")
def long(tmp_path_factory):
    """Return a project whose small study has run with many repetitions, and how long that took."""
    project = Project(tmp_path_factory.mktemp("long"))
    began = time.monotonic()
    project.dpcost("run", project.study, "--profile", "paper", "--out", project.out)
    return project, time.monotonic() - began


@pytest.fixture
def gone():
    """Return the identity of a process that has ended."""
    process = subprocess.Popen(["sleep", "60"])
    identity = ProcessIdentity.of(process.pid)
    process.kill()
    process.wait()
    return identity


@pytest.fixture
def receiver():
    """Return a webhook on the loopback interface: its ``address``, the ``bodies`` it got, its ``status``."""
    told = SimpleNamespace(bodies=[], status=200)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(told.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    told.address = f"http://127.0.0.1:{server.server_port}/hook?token=secret"
    yield told
    server.shutdown()
    server.server_close()
