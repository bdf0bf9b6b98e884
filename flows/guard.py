"""An application that only its owner's browser reaches, by a token in its address."""

import html
import os
import secrets
import webbrowser
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote

from data.store.folders import atomic_write, home
from flows.local_server import in_url, loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_CLOSED = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]


class Guarded:
    """An application behind a token: other hosts, origins and visitors are refused."""

    def __init__(self, app: Any, port: int) -> None:
        self._app, self.token = app, secrets.token_urlsafe(24)
        self._hosts = {f"{host}:{port}" for host in (in_url(loopback()), "localhost")}
        self._cookie = f"dpcost_page_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        pairs = [
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        headers = dict(pairs)
        origins = {"", *(f"http://{each}" for each in self._hosts)}
        is_own = headers.get("host", "") in self._hosts and headers.get("origin", "") in origins
        token = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        # Pair by pair: cookies of other programs on this machine may have any form.
        cookies = (each.strip() for name, text in pairs if name == "cookie" for each in text.split(";"))
        values = [
            value for name, _, value in (each.partition("=") for each in cookies) if name == self._cookie
        ]
        tokens = token, *values
        knows = [secrets.compare_digest(each.encode(), self.token.encode()) for each in tokens]
        if not is_own or not any(knows):
            await self._refuse(scope, send)
        elif scope["type"] == "http" and knows[0]:  # the token leaves the address
            place = "/" + quote(scope["path"].lstrip("/"))
            set_cookie = f"{self._cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode()
            await send(
                {
                    "type": "http.response.start",
                    "status": 303,
                    "headers": [(b"location", place.encode()), (b"set-cookie", set_cookie)],
                }
            )
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4403})
            return
        text = b"This page opens with the whole address that dpcost open printed."
        await send({"type": "http.response.start", "status": 403, "headers": _CLOSED})
        await send({"type": "http.response.body", "body": text})


@contextmanager
def opened_browser(address: str) -> Iterator[None]:
    """Open an address in the person's browser by a private file, since other users can list command lines."""
    file = home() / f"open-{os.getpid()}.html"
    to = html.escape(address)
    text = f'<meta http-equiv="refresh" content="0; url={to}"><a href="{to}">dpcost</a>'
    atomic_write(file, f"<!doctype html><title>dpcost</title>{text}".encode(), private=True)
    try:
        webbrowser.open(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)
