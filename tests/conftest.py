"""Shared fixtures: the mirrored data, a home folder of each test's own, servers on the loopback interface."""

import gc
import logging
import os
import signal
import sys
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parent.parent
os.environ.setdefault("DPCOST_DATA_MIRROR", str((PROJECT / ".." / "shared" / "data").resolve()))
os.environ["DPCOST_DATA_MIRROR"] = str((PROJECT / os.environ["DPCOST_DATA_MIRROR"]).resolve())
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")

# A busy machine is no fault of a test.
settings.register_profile("dpcost", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dpcost")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Keep the collector of garbage away from modules and items, which stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def environment_stays():
    """What a test sets in the environment ends with it: the temporary folder of a server, say."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    monkeypatch.setenv("DPCOST_HOME", str(folder))
    return folder


@pytest.fixture
def few_tables(monkeypatch):
    """Forecast on 4 synthetic tables."""
    for name in (
        "tasks.advice.forecasts.TABLES",
        "tasks.advice.releases._TABLES",
    ):
        monkeypatch.setattr(name, 4)


@pytest.fixture(scope="session")
def exit_status():
    """A function that runs ``dpcost`` with some words in this process, and returns its exit status."""
    from typer.main import get_command

    from flows.cli import main as cli

    app = get_command(cli.app)  # made once, and not by each call

    def call(*words):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cli, "app", app)
            patch.setattr(sys, "argv", ["dpcost", *map(str, words)])
            ctrl_c = signal.getsignal(signal.SIGINT)
            with pytest.raises(SystemExit) as left:
                cli.main()
            signal.signal(signal.SIGINT, ctrl_c)  # a command that was interrupted leaves it ignored
        return left.value.code or 0

    return call


@pytest.fixture
def command_line(home, exit_status, capsys):
    """A function that runs ``dpcost`` in this process on a fresh home: exit status, output, errors."""

    def call(*words):
        status = exit_status(*words)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err, words
        return status, out, err

    yield call
    for name in ("data", "tasks"):  # the command line takes their warnings for its own
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True


@pytest.fixture(scope="session")
def s3_server():
    """The environment in which ``s3://`` is a server of this session's on the loopback interface."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        known = {"ACCESS_KEY_ID": "somebody", "SECRET_ACCESS_KEY": "a secret", "DEFAULT_REGION": "us-east-1"}
        known["ENDPOINT_URL"] = f"http://{host}:{port}"
        yield {f"AWS_{name}": value for name, value in known.items()}
    finally:
        server.stop()


@pytest.fixture
def bucket(s3_server, monkeypatch):
    """The name of a new bucket; the environment is that of its server."""
    import fsspec

    for variable, value in s3_server.items():
        monkeypatch.setenv(variable, value)
    name = str(uuid.uuid4())
    fsspec.filesystem("s3", use_listings_cache=False).mkdir(name)
    return name


@pytest.fixture(params=["file", "memory", pytest.param("s3", marks=pytest.mark.server)])
def in_shared_store(request, home, tmp_path, monkeypatch):
    """A function that returns what lies in the shared store, by name; the store's address is its own."""
    import fsspec

    if request.param == "s3":
        address = f"s3://{request.getfixturevalue('bucket')}/folder"
    else:
        address = {"file": f"file://{tmp_path}/shared", "memory": f"memory://{uuid.uuid4()}"}[request.param]
    monkeypatch.setenv("DPCOST_STORE", address)

    def stored():
        folder, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
        return {path.removeprefix(root).lstrip("/"): folder.cat_file(path) for path in folder.find(root)}

    return stored


@dataclass
class Web:
    """A web server on loopback that answers each address with a list of replies, the last one forever."""

    address: str
    replies: dict[str, list[tuple[int, bytes, int]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def serve(self, path, *replies, cut_off=0):
        """Answer with bytes, or with an error status; `cut_off` bytes are promised and withheld."""
        self.replies[path] = [
            (200, reply, len(reply) + cut_off) if isinstance(reply, bytes) else (reply, b"", 0)
            for reply in replies
        ]
        return self.address + path


@pytest.fixture
def web(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.asked.append(self.path)
            queue = site.replies.get(self.path, [(404, b"", 0)])
            status, body, length = queue.pop(0) if len(queue) > 1 else queue[0]
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Web(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()
