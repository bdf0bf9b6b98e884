"""Published-looking archives and a scripted web server; nothing here uses the network."""

import hashlib
import io
import tarfile
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from data.dataset import Source
from data.datasets import get_dataset, housing
from data.fetch.raw import EMBEDDED


def rows_of(table, columns, number, separator):
    values = table[list(columns)].to_numpy(dtype=float)
    return "".join(separator.join(number % value for value in row) + "\n" for row in values)


def make_tgz(text, member="CaliforniaHousing/cal_housing.data"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def with_tgz(dataset, payload, url="http://127.0.0.1:9/data"):
    """Return the dataset as if `payload` were its only published file."""
    source = Source("housing/cal_housing.tgz", url, "cal_housing_tgz", hashlib.sha256(payload).hexdigest())
    return replace(dataset, source=source)


@pytest.fixture(scope="session")
def published():
    """The published file, which ships with the package."""
    tgz = (EMBEDDED / "housing" / "cal_housing.tgz").read_bytes()
    return SimpleNamespace(dataset=get_dataset("housing"), tgz=tgz, n_capped=965)


@pytest.fixture(scope="session")
def small_table():
    return housing.stand_in(300, np.random.default_rng(1))


@pytest.fixture
def small(small_table):
    def build(tamper=list):
        lines = rows_of(small_table, housing.CAL_HOUSING_COLUMNS, "%f", ",").splitlines()
        tampered = tamper(lines)
        payload = make_tgz("".join(line + "\n" for line in tampered))
        dataset = with_tgz(get_dataset("housing"), payload)
        return replace(dataset, n_rows=len(tampered), table_sha256=""), payload

    return build


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
