"""The web application of a server: Prefect's, ``/reports``, ``/site`` (the documentation), and sign-in.

Prefect asks for the authentication string below ``/api``, in a header that its pages send and that no other
site can make a browser send. Reports, the documentation and the description of the API ask for the same
string on a page of their own, which leaves a cookie that is good for them alone. Requests by another host
name, and requests of other sites that would change something, are refused.
"""

import base64
import hashlib
import hmac
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from data.store.folders import SITE

COOKIE = "dpcost"
SIGN_IN = "/sign-in"
_FILES = ("/reports", "/site")
_GUARDED = (*_FILES, "/docs", "/redoc", "/openapi.json")  # the last three describe the API
_READS = ("GET", "HEAD", "OPTIONS")
_MAX_BODY = 65_536  # bytes of a sign-in
WRONG_PER_ADDRESS, WRONG_IN_ALL = 10, 100  # passwords in a minute, after which no other is looked at
# Prefect's pages would load logos and report their use elsewhere.
_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; form-action 'self'"
)
# Reports may be of strangers, on the origin of Prefect's pages: no script runs but those of our pages.
_POLICY_OF_FILES = (
    "default-src 'none'; script-src {scripts}; connect-src {connect}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'"
)
_FORM = """<!doctype html><meta charset="utf-8"><title>Sign in</title>
<meta name="viewport" content="width=device-width">
<style>body {{ font: 1rem system-ui; margin: 4rem auto; padding: 0 1rem; max-width: 24rem }}</style>
<form method="post"><p><label>{said}<br><input name="password" type="password" autofocus></label>
<button>Sign in</button></p></form>"""
_STARTING = """<!doctype html><meta charset="utf-8"><title>Starting</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="2">
<style>p {{ font: 1rem system-ui; margin: 10vw 1rem }}</style>
<p>This server is starting: {said}. This page reloads itself.</p>"""


def guarded_app(
    prefect: ASGIApp,
    folder: Path,
    authentication: str,
    hosts: Sequence[str],
    site: Path = SITE,
    starting: Callable[[], str] = lambda: "",
) -> ASGIApp:
    """Return the whole application: Prefect's, the reports in a folder, and what both refuse.

    `authentication` is ``name:password``; `hosts` are the names that it is reached by. As long as `starting`
    returns a sentence, a browser is shown that instead of Prefect's pages.
    """
    ours = Starlette(
        routes=[
            Route(SIGN_IN, partial(_sign_in, authentication, _Brake()), methods=["GET", "POST"]),
            Route("/reports", lambda request: RedirectResponse("/reports/")),
            Route("/site", lambda request: RedirectResponse("/site/")),
            Mount("/reports", StaticFiles(directory=folder, html=True, check_dir=False)),
            Mount("/site", StaticFiles(directory=site, html=True, check_dir=False)),
        ],
        exception_handlers={HTTPException: _no_file, OSError: _no_file, RuntimeError: _no_file},
    )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = (b"content-security-policy", _policy(site, scope["path"]).encode())
                message["headers"] = [*message["headers"], policy]
                if scope["path"].startswith("/reports"):  # also of one's own tables, which no browser keeps
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        if scope["type"] == "lifespan":
            await prefect(scope, receive, send)
            return
        request, path = HTTPConnection(scope), scope["path"]
        first = f"/{path.split('/')[1]}" if "/" in path else ""
        answer: ASGIApp = ours if first in (*_FILES, SIGN_IN) else prefect
        is_page = request.headers.get("accept", "").startswith("text/html")
        if refused := _refusal(request):
            answer = WebSocketClose(1008) if scope["type"] == "websocket" else refused
        elif path.startswith("/api/collections/"):
            # Prefect would ask the network for its list of integrations.
            answer = PlainTextResponse("not offered here", 404)
        elif first in _GUARDED and not _has_signed_in(request, authentication):
            refusal = PlainTextResponse("this needs the server's name and password", 401)
            answer = RedirectResponse(f"{SIGN_IN}?to={path}", 303) if is_page else refusal
        elif is_page and answer is prefect and (said := starting()):
            answer = HTMLResponse(_STARTING.format(said=said), 503, {"retry-after": "2"})
        await answer(scope, receive, sending)

    return TrustedHostMiddleware(application, allowed_hosts=list(hosts), www_redirect=False)


def _policy(site: Path, path: str) -> str:
    """Return which scripts the page at a path may run."""
    if path.startswith("/reports"):
        from reports.pages.text import script_hashes  # what draws is loaded where something is shown

        scripts = " ".join(["'unsafe-eval'", *script_hashes()])  # Vega compiles its own expressions
        return _POLICY_OF_FILES.format(scripts=scripts, connect="'none'")
    if path.startswith("/site"):
        from reports.pages.text import script_hash

        own = list[str]()
        with suppress(OSError):
            own = re.findall(r"<script>(.*?)</script>", (site / "index.html").read_text("utf-8"), re.DOTALL)
        scripts = " ".join(["'self'", *map(script_hash, own)])
        return _POLICY_OF_FILES.format(scripts=scripts, connect="'self'")
    return _POLICY


class _Brake:
    """Counts the wrong passwords of the last minute, by the address that they came from."""

    def __init__(self) -> None:
        self._wrong: deque[tuple[float, str]] = deque()

    def note(self, address: str) -> None:
        self._wrong.append((time.monotonic(), address))

    def holds(self, address: str) -> bool:
        while self._wrong and self._wrong[0][0] < time.monotonic() - 60:
            self._wrong.popleft()
        of_address = sum(each == address for _, each in self._wrong)
        return of_address >= WRONG_PER_ADDRESS or len(self._wrong) >= WRONG_IN_ALL


async def _sign_in(authentication: str, brake: _Brake, request: Request) -> Response:
    """Ask for the password, and leave a cookie that does not hold it."""
    if request.method != "POST":
        return HTMLResponse(_FORM.format(said="The password of this server:"))
    body, address = b"", request.client.host if request.client else ""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            return PlainTextResponse(f"a sign-in takes at most {_MAX_BODY} bytes", 413)
    if brake.holds(address):
        return PlainTextResponse(
            "too many wrong passwords; try again in a minute", 429, {"retry-after": "60"}
        )
    given = parse_qs(body.decode(errors="replace")).get("password", [""])[0]
    accepted = (authentication, authentication.partition(":")[2])
    if not given or not any(hmac.compare_digest(given.encode(), each.encode()) for each in accepted):
        brake.note(address)
        return HTMLResponse(_FORM.format(said="That was not the password of this server:"), 401)
    to = request.query_params.get("to", "")
    answer = RedirectResponse(to if to.startswith(_GUARDED) else "/reports/", 303)
    answer.set_cookie(COOKIE, _token(authentication), httponly=True, samesite="strict")
    return answer


def _token(authentication: str) -> str:
    return hmac.new(authentication.encode(), b"reports", hashlib.sha256).hexdigest()


def _has_signed_in(request: HTTPConnection, authentication: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    cookie = request.cookies.get(COOKIE, "").encode()
    by_header = hmac.compare_digest(given.strip().encode(), base64.b64encode(authentication.encode()))
    by_cookie = hmac.compare_digest(cookie, _token(authentication).encode())
    return (by_header and scheme.lower() == "basic") or by_cookie


def _refusal(request: HTTPConnection) -> Response | None:
    """Refuse what a page of another site makes a browser ask for, if that is more than a page."""
    origin = request.headers.get("origin")
    try:
        from_elsewhere = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    except ValueError:  # brackets that do not match
        return PlainTextResponse(f"the header Origin must be an address, got {origin!r:.90}", 400)
    if request.scope["type"] == "http" and request.scope["method"] in _READS:
        return None
    if origin is None:
        from_elsewhere = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    return PlainTextResponse("another site may not ask for this", 403) if from_elsewhere else None


async def _no_file(request: Request, fault: Exception) -> Response:
    status = fault.status_code if isinstance(fault, HTTPException) else 404
    site = request.url.path.startswith("/site")
    sentence = "there is no such page; make docs builds the documentation"
    return PlainTextResponse(
        sentence if site else "there is no such report; the first run writes the index", status
    )
