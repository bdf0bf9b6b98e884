"""``python -m flows.loopback_server --port N``: a Prefect server for one person on one machine.

It listens on the loopback interface alone, which every web page and every user of the machine can reach, too.
So it answers requests only if they name it by its own address, come from its own pages or from no page at
all, are of a decent size, and, beyond the question whether it is well, carry the home's authentication string
(Prefect checks it).
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from flows.child_processes import end_with_owner

HOST = "127.0.0.1"
STOP_TIMEOUT = 10.0
MAX_REQUEST = 8_000_000  # bytes; a report with its figures has two million

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LoopbackGuard:
    """Refuses requests by another name, and from pages of another origin; keeps its own pages to themselves.

    Parameters
    ----------
    app : callable
        The application behind it (ASGI).
    port : int
        The server's port.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}
        sockets = {f"ws://{host}" for host in self.hosts}
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
            await _refuse(scope, send, problem)
        else:
            await self.app(scope, receive, self._with_policy(send))

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


async def _refuse(scope: Scope, send: Send, problem: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": problem})
        return
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": problem.encode()})


def main() -> None:
    """Serve until told to stop, or until the process that started this one is gone."""
    parser = argparse.ArgumentParser(prog="python -m flows.loopback_server", description=main.__doc__)
    parser.add_argument("--port", type=int, required=True, help="the port on the loopback interface")
    port = parser.parse_args().port
    end_with_owner(STOP_TIMEOUT)

    import uvicorn
    from prefect.server.api import collections
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_LOGGING_LEVEL

    # Prefect asks the network for lists of its integrations, and takes those it brings along if that fails.
    collections.KNOWN_VIEWS = dict.fromkeys(collections.KNOWN_VIEWS, "")
    uvicorn.run(
        LoopbackGuard(create_app(final=True), port),
        host=HOST,
        port=port,
        log_level=PREFECT_SERVER_LOGGING_LEVEL.value().lower(),
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
