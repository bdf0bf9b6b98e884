"""An object store that throttles, fails, answers late or goes away in mid-write, between a run and moto's."""

import http.client
import itertools
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from small_project import Project

pytestmark = [pytest.mark.server, pytest.mark.slow]

THROTTLED = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
FAILED = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"


class Between(ThreadingHTTPServer):
    """Passes requests on to a store, and disturbs those that `disturb` chooses by number and method."""

    daemon_threads = True

    def __init__(self, store):
        super().__init__(("127.0.0.1", 0), Disturbing)
        self.store, self.numbers, self.n_disturbed = urlsplit(store).netloc, itertools.count(1), 0
        self.disturb = lambda number, method: ""
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Disturbing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        between = self.server
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        what = between.disturb(next(between.numbers), self.command)
        between.n_disturbed += bool(what)
        if what == "throttle":
            self.answer(503, THROTTLED)
            return
        store = http.client.HTTPConnection(between.store, timeout=30)
        if what == "half":  # the rest of what is written never arrives
            body = body[: len(body) // 2]
            self.close_connection = True
            return
        store.request(self.command, self.path, body, dict(self.headers))
        answer = store.getresponse()
        content = answer.read()
        if what == "late":
            time.sleep(3)
        if what == "lose":  # it was done, and nobody is told
            self.close_connection = True
        elif what == "fail":
            self.answer(500, FAILED)
        else:
            self.answer(answer.status, content, answer.getheaders())

    def answer(self, status, content, headers=()):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = dict(headers).get("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

    def log_message(self, *_):
        pass


@pytest.fixture
def between(project, s3_server, bucket):
    server = Between(s3_server["AWS_ENDPOINT_URL"])
    at = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "DPCOST_STORE": f"s3://{bucket}/dpcost",
    }
    project.environment |= s3_server | at
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("what", ["throttle", "fail", "late", "lose", "half"])
def test_a_store_that_fails_now_and_then_costs_time_and_no_result(project, undisturbed, between, what):
    between.disturb = lambda number, method: what if number % 3 == 1 else ""
    _, err = project.run()
    assert between.n_disturbed > 5
    assert project.same_results(undisturbed), err
    between.disturb = lambda number, method: ""
    other = Project(project.folder, "two")
    other.environment |= {name: project.environment[name] for name in ("DPCOST_STORE", "AWS_ENDPOINT_URL")}
    other.environment |= {k: v for k, v in project.environment.items() if k.startswith("AWS_")}
    _, err = other.run()
    assert "all from the cache" in err
    assert other.same_results(undisturbed)


@pytest.mark.parametrize("what", ["throttle", "half"])
def test_a_store_that_goes_away_is_a_sentence_and_a_repeat_goes_on(project, undisturbed, between, what):
    between.disturb = lambda number, method: what if number > 12 else ""
    _, err = project.run(status=2)
    assert "DPCOST_STORE=s3://" in err
    assert "cannot be used" in err
    assert project.environment["AWS_SECRET_ACCESS_KEY"] not in err
    between.disturb = lambda number, method: ""
    project.run()
    assert project.same_results(undisturbed)
