"""``python -m flows.server.guarded_server --port N``: a Prefect server for one person on one machine.

It listens on the loopback interface alone unless it is told otherwise. Even there every web page and every
user of the machine can reach it. So it answers requests only if they name it by its own address, come from
its own pages or from no page at all, are of a decent size, hold text that can be stored, and, beyond the
question whether it is well, carry the home's authentication string (Prefect checks it). Below ``/reports`` it
shows the reports, for the same string as name and password.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from data.store.folders import REPORTS
from flows.record.child_processes import end_with_owner
from flows.server.request_text import Receive, checked_messages, given_again, text_problem, whole_body
from flows.studies.parameter_words import say_what_is_allowed

HOST = "127.0.0.1"
STOP_TIMEOUT = 10.0
REPORTS_PATH = "/reports/"
MAX_REQUEST = 8_000_000  # bytes; a report with its figures has two million

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class RequestGuard:
    """Refuses requests by another name, and from pages of another origin; keeps its own pages to themselves.

    Parameters
    ----------
    app : callable
        The application behind it (ASGI).
    port : int
        The server's port.
    reports : callable, optional
        What shows the reports below ``/reports`` (ASGI); `app` by default.
    known_as : sequence of str
        Other names that it is reached by, each with its port if a browser would write one.
    """

    def __init__(
        self,
        app: Application,
        port: int,
        reports: Application | None = None,
        known_as: Sequence[str] = (),
    ) -> None:
        self.app, self.reports = app, reports or app
        own, others = {f"{name}:{port}" for name in (HOST, "localhost")}, {each.lower() for each in known_as}
        self.hosts = own | others
        secure = {f"https://{host}" for host in others}  # a proxy before it may speak TLS
        self.origins = {f"http://{host}" for host in self.hosts} | secure
        sockets = {f"ws{origin.removeprefix('http')}" for origin in self.origins}
        reachable = " ".join(["'self'", *sorted(self.origins | sockets)])
        self.policy = (
            f"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src {reachable}; "
            "frame-ancestors 'none'; form-action 'self'"
        ).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif problem := self.problem(scope):
            if scope["type"] == "http":
                await _pass_over_body(receive)
            await _refuse(scope, send, problem)
        elif scope["type"] == "http" and scope.get("path", "").startswith(REPORTS_PATH):
            await self.reports(scope, receive, self._with_policy(send))
        elif scope["type"] == "websocket":
            await self.app(scope, checked_messages(receive), self._with_policy(send))
        else:
            body = await whole_body(receive)
            if problem := text_problem(body):
                await _refuse(scope, send, problem)
            else:
                await self.app(scope, given_again(body, receive), self._with_policy(send))

    def problem(self, scope: Scope) -> str:
        """Say what is wrong with a request; nothing if nothing is."""
        headers = [(name, value.decode("latin-1").lower()) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return f"this server answers to {' and '.join(sorted(self.hosts))} only"
        if any(value not in self.origins for name, value in headers if name == b"origin"):
            return "this server answers its own pages only"
        return self._size_problem(dict(headers))

    @staticmethod
    def _size_problem(headers: dict[bytes, str]) -> str:
        length = headers.get(b"content-length", "0")
        if b"transfer-encoding" in headers or not length.isdecimal():
            return "a request must say its length"
        if len(length) > 18 or int(length) > MAX_REQUEST:
            return f"a request may have at most {MAX_REQUEST / 1e6:g} MB, got {length} bytes"
        return ""

    def _with_policy(self, send: Send) -> Send:
        """Tell browsers to load nothing from elsewhere: the pages ask for logos and report their use."""

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", self.policy)]
            await send(message)

        return sending


class ReportPages:
    """Shows the files of a folder to whoever knows the authentication string, as name and password.

    Parameters
    ----------
    folder : Path
        The folder; it need not exist yet.
    authentication : str
        ``name:password``.
    """

    def __init__(self, folder: Path, authentication: str) -> None:
        from starlette.staticfiles import StaticFiles

        self.files = StaticFiles(directory=folder, html=True, check_dir=False)
        self.expected = b"Basic " + base64.b64encode(authentication.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        from starlette.exceptions import HTTPException

        given = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(given, self.expected):
            ask = (b"www-authenticate", b'Basic realm="dpcost"')
            await _refuse(scope, send, "the reports ask for the server's password", 401, ask)
            return
        below = {"root_path": REPORTS_PATH.rstrip("/"), "path": scope["path"]}
        try:
            await self.files({**scope, **below}, receive, send)
        except (
            HTTPException
        ) as fault:  # raised before anything is sent, and nobody else turns it into an answer
            await _refuse(
                scope, send, "there is no such report; the first run writes the index", fault.status_code
            )


async def _pass_over_body(receive: Receive) -> None:
    """Take what a client sends, and keep nothing: one that is cut off does not read why it was refused."""
    taken = 0
    while taken < 10 * MAX_REQUEST:
        message = await receive()
        taken += len(message.get("body", b""))
        if not message.get("more_body"):
            return


async def _refuse(
    scope: Scope, send: Send, problem: str, status: int = 403, *more: tuple[bytes, bytes]
) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": problem})
        return
    headers = [(b"content-type", b"text/plain"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": problem.encode()})


def take_the_write_lock_first() -> None:
    """Let SQLite transactions that may write begin by waiting for the write lock.

    One that reads first, while another writes, fails as "database is locked" when it comes to write, however
    long it may wait: what it has read is no longer so.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration as Configuration

    begin = Configuration.begin_transaction

    def begin_with_the_lock(self: Any, session: Any, with_for_update: bool = False) -> Any:
        return begin(self, session, with_for_update=True)

    setattr(Configuration, "begin_transaction", begin_with_the_lock)  # noqa: B010


def put_pages_aside() -> None:
    """Let Prefect make its pages below its home where whoever runs this may not write into the package.

    It copies them beside its code otherwise, and serves none if it can't.
    """
    package = find_spec("prefect")
    assert package is not None
    assert package.origin is not None
    if not os.access(Path(package.origin).parent / "server", os.W_OK):
        prefect_home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
        os.environ.setdefault("PREFECT_UI_STATIC_DIRECTORY", str(prefect_home / "pages"))


def ask_again_while_the_database_is_away() -> None:
    """Answer clients that they may try again, as they do for a minute, while the database does not answer.

    Prefect answers so for some of the errors that a database's restart raises; the others it takes for errors
    of its own, which end the run that asked.
    """
    import asyncpg
    from prefect.server.api import server

    known = server.is_client_retryable_exception
    away = (
        OSError,  # nobody listens there, or the connection was cut
        asyncpg.InterfaceError,
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,  # it shuts down, starts up or recovers
    )

    def may_try_again(error: Exception) -> bool:
        return isinstance(error, away) or known(error)

    setattr(server, "is_client_retryable_exception", may_try_again)  # noqa: B010


def look_for_background_work_once_a_second() -> None:
    """Let Prefect's services, which run every few seconds at most, look four times less often whether to."""
    from prefect.server.api import background_workers

    module: Any = background_workers  # which does not export it
    seldom = timedelta(seconds=1)
    module.Worker = partial(module.Worker, minimum_check_interval=seldom, scheduling_resolution=seldom)


def main() -> None:
    """Serve until told to stop, or until the process that started this one is gone."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.guarded_server", description=main.__doc__)
    parser.add_argument("--port", type=int, required=True, help="the port to listen on")
    parser.add_argument("--host", default=HOST, help=f"the interface to listen on (default {HOST})")
    parser.add_argument(
        "--known-as",
        action="append",
        default=[],
        help="NAME:PORT of an address it is reached by; may be repeated",
    )
    parser.add_argument("--standalone", action="store_true", help="goes on without who started it")
    options = parser.parse_args()
    if not options.standalone:
        end_with_owner(STOP_TIMEOUT)

    put_pages_aside()

    import uvicorn
    from prefect.server.api import collections
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_API_AUTH_STRING, PREFECT_SERVER_LOGGING_LEVEL

    secret = PREFECT_SERVER_API_AUTH_STRING.value()
    if options.host != HOST and not secret:
        parser.error(
            "--host beyond the loopback interface needs a password: set PREFECT_SERVER_API_AUTH_STRING"
        )
    reports = ReportPages(REPORTS, str(secret)) if secret else None
    # Prefect asks the network for lists of its integrations, and takes those it brings along if that fails.
    collections.KNOWN_VIEWS = dict.fromkeys(collections.KNOWN_VIEWS, "")
    take_the_write_lock_first()
    ask_again_while_the_database_is_away()
    look_for_background_work_once_a_second()
    say_what_is_allowed()
    uvicorn.run(
        RequestGuard(create_app(final=True), options.port, reports, options.known_as),
        host=options.host,
        port=options.port,
        log_level=PREFECT_SERVER_LOGGING_LEVEL.value().lower(),
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
