"""Who may see a page: this machine alone, with the token of its address."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_CLOSED = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]


class Guarded:
    """An application behind a token: other hosts, origins and visitors are refused."""

    def __init__(self, app: Any, port: int) -> None:
        self._app, self.token = app, secrets.token_urlsafe(24)
        self._hosts, self._cookie = {f"127.0.0.1:{port}", f"localhost:{port}"}, f"dpcost_page_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        origins = {"", *(f"http://{each}" for each in self._hosts)}
        is_own = headers.get("host", "") in self._hosts and headers.get("origin", "") in origins
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        tokens = given, cookie.value if cookie else ""
        knows = [secrets.compare_digest(each.encode(), self.token.encode()) for each in tokens]
        if not is_own or not any(knows):
            await self._refuse(scope, send)
        elif scope["type"] == "http" and knows[0]:  # the token leaves the address
            set_cookie = f"{self._cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode()
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
