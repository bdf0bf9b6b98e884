"""Who may see a page: this machine alone, with the token of its address."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_COOKIE = "dpcost_page"
_CLOSED = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]


class Guarded:
    """An application behind a token: other hosts, origins and visitors are refused."""

    def __init__(self, app: Any, port: int) -> None:
        self._app, self.token = app, secrets.token_urlsafe(24)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        origin = headers.get("origin", "")
        is_own = headers.get("host", "") in self._hosts and origin.partition("://")[2] in {"", *self._hosts}
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        cookie = SimpleCookie(headers.get("cookie", "")).get(_COOKIE)
        knows = [secrets.compare_digest(each, self.token) for each in (given, cookie.value if cookie else "")]
        if not is_own or not any(knows):
            await self._refuse(scope, send)
        elif scope["type"] == "http" and knows[0]:  # the token leaves the address
            set_cookie = f"{_COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode()
            await send(
                {
                    "type": "http.response.start",
                    "status": 303,
                    "headers": [(b"location", b"/"), (b"set-cookie", set_cookie)],
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
