import asyncio
import base64
import contextlib
import os
from types import SimpleNamespace

import asyncpg
import pytest

from flows.server import guarded_server
from flows.server.guarded_server import ReportPages, RequestGuard

OWN = "http://127.0.0.1:4200"


def answer(kind="http", pieces=(b"x" * 1000,), read=None, **headers):
    """Return what a guarded application that says yes to everything answers to a request.

    Its body comes in pieces; what the application reads of them goes to ``read``.
    """
    sent, left = [], list(pieces)

    async def app(scope, receive, send):
        if read is not None:
            read.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    raw = [
        (name.encode(), value.encode())
        for name, values in headers.items()
        for value in ([values] if isinstance(values, str) else values)
    ]

    async def receive():
        if kind == "websocket":
            return {"type": "websocket.receive", "text": left.pop(0)}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    asyncio.run(RequestGuard(app, 4200)({"type": kind, "headers": raw}, receive, send))
    return sent


REFUSED = {
    "foreign host": {"host": "example.org:4200"},
    "a name that resolves to the loopback interface": {"host": "rebound.example.org:4200"},
    "another port": {"host": "127.0.0.1:80"},
    "no port": {"host": "127.0.0.1"},
    "no host": {},
    "two hosts": {"host": ["127.0.0.1:4200", "example.org"]},
    "foreign origin": {"host": "127.0.0.1:4200", "origin": "https://example.org"},
    "a file's origin": {"host": "127.0.0.1:4200", "origin": "null"},
    "another local page": {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:8000"},
    "one foreign origin of two": {"host": "127.0.0.1:4200", "origin": [OWN, "https://example.org"]},
}


@pytest.mark.parametrize("case", REFUSED)
def test_foreign_requests_are_refused(case):
    start, body = answer(**REFUSED[case])
    assert start["status"] == 403
    assert b"this server answers" in body["body"]


@pytest.mark.parametrize("case", REFUSED)
def test_foreign_sockets_are_closed_before_they_are_accepted(case):
    (message,) = answer("websocket", **REFUSED[case])
    assert message["type"] == "websocket.close"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"content-length": "10000000"}, b"at most 8 MB, got 10000000 bytes"),
        ({"content-length": "9" * 100}, b"at most 8 MB"),
        ({"content-length": "many"}, b"must say its length"),
        ({"transfer-encoding": "chunked"}, b"must say its length"),
    ],
)
def test_requests_without_end_are_refused_unread(headers, said):
    start, body = answer(host="127.0.0.1:4200", **headers)
    assert start["status"] == 403
    assert said in body["body"]


ODD = {
    "half of a pair": rb'{"study": "\ud83d"}',
    "the other half": rb'{"study": "\uDE00\uD83D"}',
    "two first halves": rb'"\ud83d\ud83d\ude00"',
    "after a backslash": rb'"\\\ud83d"',
    "in bytes": b'"\xed\xa0\x80"',
    "a null character": rb'{"study": "a\u0000"}',
    "another encoding": '"\\ud83d"'.encode("utf-16"),
    "another encoding without a mark": '"\\ud83d"'.encode("utf-16-be"),
    "no text": b"\xff\xfe\xfd",
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("cut", [0, 6, 14])
def test_text_that_cannot_be_stored_is_refused(case, cut):
    start, body = answer(pieces=[ODD[case][:cut], ODD[case][cut:]], host="127.0.0.1:4200")
    assert start["status"] == 403
    assert b"a request m" in body["body"]


@pytest.mark.parametrize(
    "body",
    [b"", "{'Aä€😀'}".encode(), rb'"\ud83d\ude00 \\ud83d \\u0000 \u00e4\n\""', b'"cut \\', b"x" * 1000],
)
def test_any_other_text_is_handed_on_as_it_is(body):
    read = []
    (start,) = answer(pieces=[body[:5], body[5:7], body[7:]], read=read, host="127.0.0.1:4200")
    assert start["status"] == 200
    assert read == [{"type": "http.request", "body": body, "more_body": False}]


def test_a_socket_that_sends_text_that_cannot_be_stored_is_ended():
    for text, kind in (
        ('"\\ud83d"', "disconnect"),
        ('"\ud83d"', "disconnect"),
        ('"\\ud83d\\ude00"', "receive"),
    ):
        read = []
        answer("websocket", pieces=[text], read=read, host="127.0.0.1:4200")
        assert [message["type"] for message in read] == [f"websocket.{kind}"]


@pytest.mark.parametrize("host", ["127.0.0.1:4200", "localhost:4200", "LOCALHOST:4200"])
@pytest.mark.parametrize("origin", [{}, {"origin": OWN}, {"origin": "http://localhost:4200"}])
def test_own_pages_and_programs_are_answered_and_pages_load_nothing_from_elsewhere(host, origin):
    (start,) = answer(host=host, **origin)
    assert start["status"] == 200
    policy = dict(start["headers"])[b"content-security-policy"].decode()
    sources = {word for rule in policy.split(";") for word in rule.split()[1:]}
    own = {f"{scheme}://{name}:4200" for scheme in ("http", "ws") for name in ("127.0.0.1", "localhost")}
    assert {source for source in sources if "://" in source} == own
    assert "*" not in policy


def test_a_server_for_a_team_answers_to_its_other_names_too():
    guard = RequestGuard(None, 4200, known_as=["dpcost.example.org", "server:4200"])
    for name in ("dpcost.example.org", "server:4200", "localhost:4200"):
        assert guard.problem({"headers": [(b"host", name.encode())]}) == ""
    for origin in ("https://dpcost.example.org", "http://server:4200"):
        assert guard.problem({"headers": [(b"host", b"server:4200"), (b"origin", origin.encode())]}) == ""
    assert guard.problem({"headers": [(b"host", b"example.org")]})
    assert guard.problem({"headers": [(b"host", b"server:4200"), (b"origin", b"https://localhost:4200")]})
    assert b"wss://dpcost.example.org" in guard.policy


def test_beyond_the_loopback_interface_a_server_needs_a_password(monkeypatch, capsys):
    monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING", raising=False)
    monkeypatch.setattr("sys.argv", ["server", "--port", "4200", "--host", "0.0.0.0", "--standalone"])
    with pytest.raises(SystemExit):
        guarded_server.main()
    assert "set PREFECT_SERVER_API_AUTH_STRING" in capsys.readouterr().err


def test_a_transaction_that_may_write_takes_the_lock_before_it_reads(monkeypatch):
    from prefect.server.database import configurations

    sqlite = configurations.AioSqliteConfiguration
    monkeypatch.setattr(sqlite, "begin_transaction", sqlite.begin_transaction)  # put back afterwards
    session = SimpleNamespace(begin=contextlib.AsyncExitStack)

    async def mode():
        async with sqlite.begin_transaction(SimpleNamespace(), session):
            return configurations.SQLITE_BEGIN_MODE.get()

    assert asyncio.run(mode()) == "DEFERRED"
    guarded_server.take_the_write_lock_first()
    assert asyncio.run(mode()) == "IMMEDIATE"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectionRefusedError(), 503),
        (asyncpg.ConnectionDoesNotExistError(), 503),
        (asyncpg.CannotConnectNowError(), 503),
        (asyncpg.AdminShutdownError(), 503),
        (asyncpg.InterfaceError("cannot perform operation: connection is closed"), 503),
        (ValueError(), 500),
    ],
)
def test_whoever_asks_while_the_database_is_away_is_told_to_try_again(monkeypatch, error, status):
    from prefect.server.api import server

    usual = server.is_client_retryable_exception
    monkeypatch.setattr(server, "is_client_retryable_exception", usual)  # put back afterwards
    guarded_server.ask_again_while_the_database_is_away()
    request = SimpleNamespace(method="POST", url="http://127.0.0.1:4200/api/logs/")
    answered = asyncio.run(server.custom_internal_exception_handler(request, error))
    assert answered.status_code == status


def test_prefects_services_are_looked_for_once_a_second(monkeypatch):
    from docket import Docket
    from prefect.server.api import background_workers

    monkeypatch.setattr(background_workers, "Worker", background_workers.Worker)  # put back afterwards
    guarded_server.look_for_background_work_once_a_second()
    worker = background_workers.Worker(Docket("any", url="memory://"))
    assert worker.minimum_check_interval.total_seconds() == 1
    assert worker.scheduling_resolution.total_seconds() == 1


def test_what_is_no_request_passes():
    assert answer("lifespan")[0]["status"] == 200


@pytest.fixture
def shown(tmp_path):
    """Return a function that asks for a path below the reports, and the status and body that it gets."""
    reports = tmp_path / "out"
    (reports / "housing").mkdir(parents=True)
    (reports / "housing" / "report.html").write_text("<h1>A report</h1>")
    (tmp_path / "secret").write_text("secret")
    (reports / "link").symlink_to(tmp_path / "secret")

    def ask(path, password="dpcost:right"):
        sent = []

        async def other(scope, receive, send):
            raise AssertionError("the reports are not Prefect's")

        async def send(message):
            sent.append(message)

        async def unread():
            await asyncio.Event().wait()

        headers = [(b"host", b"127.0.0.1:4200")]
        if password:
            headers.append((b"authorization", b"Basic " + base64.b64encode(password.encode())))
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
        guard = RequestGuard(other, 4200, ReportPages(reports, "dpcost:right"))

        asyncio.run(guard(scope, unread, send))
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)

    return ask


def test_reports_are_shown_for_the_password(shown):
    assert shown("/reports/housing/report.html") == (200, b"<h1>A report</h1>")
    for wrong in ("", "dpcost:wrong", "dpcost:"):
        status, body = shown("/reports/housing/report.html", wrong)
        assert (status, b"A report" in body) == (401, False)


@pytest.mark.parametrize(
    "path", ["/reports/../secret", "/reports/link", "/reports//etc/passwd", "/reports/no"]
)
def test_nothing_beside_the_reports_is_shown(shown, path):
    status, body = shown(path)
    assert (status, body) == (404, b"there is no such report; the first run writes the index")


def test_pages_are_made_below_the_home_where_the_package_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_UI_STATIC_DIRECTORY", "")
    monkeypatch.delenv("PREFECT_UI_STATIC_DIRECTORY")
    for writable, expected in ((True, None), (False, str(tmp_path / "pages"))):
        monkeypatch.setattr(guarded_server.os, "access", lambda path, mode, writable=writable: writable)
        guarded_server.put_pages_aside()
        assert os.environ.get("PREFECT_UI_STATIC_DIRECTORY") == expected
