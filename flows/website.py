"""The web application of `make serve`: Prefect's server, with reports next to it.

Prefect asks for the authentication string below ``/api``, in a header that its pages send and that no other
site can make a browser send. Reports ask for the same name and password in the browser's own way, which a
browser sends nowhere else.
"""

import base64
import hmac
import re
from collections.abc import Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.run_options import PROFILES

_FILES = ("/reports",)
# What pages of reports run is served from the code, never from the folder of reports.
_SCRIPTS = tuple(f"/reports/{folder}pages.js" for folder in ("", *(f"{each}/" for each in PROFILES)))
# The description of Prefect's API, and what Prefect would ask the network for.
_NOT_OFFERED = ("/docs", "/redoc", "/openapi.json", "/api/collections")
_REALM = {"www-authenticate": 'Basic realm="reports", charset="UTF-8"'}
# Prefect's pages would load logos and report their use elsewhere.
_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; form-action 'self'"
)
# Reports may be of strangers, on the origin of Prefect's pages: no script runs but those of our pages.
_POLICY_OF_FILES = (
    "default-src 'none'; script-src {scripts}; connect-src 'none'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'"
)


def with_reports(prefect: ASGIApp, folder: Path, authentication: str, hosts: Sequence[str]) -> ASGIApp:
    """Return Prefect's application with the reports in a folder next to it.

    `authentication` is ``name:password``; `hosts` are the names that the server is reached by.
    """
    files = Starlette(
        routes=[
            Route("/reports", lambda request: RedirectResponse(f"{request.url.path}/")),
            *(Route(path, _script) for path in _SCRIPTS),
            Mount("/reports", StaticFiles(directory=folder, html=True, check_dir=False)),
        ],
        exception_handlers={HTTPException: _no_file, OSError: _no_file, RuntimeError: _no_file},
    )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await prefect(scope, receive, send)
            return
        path = scope["path"]

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = _policy(path, _host(Headers(scope=scope)))
                if _is_below(path, _FILES):
                    headers["cross-origin-resource-policy"] = "same-origin"
                    headers["cache-control"] = "no-store"  # some are of tables of one's own
            await send(message)

        answer = prefect
        if _is_below(path, _NOT_OFFERED):
            answer = PlainTextResponse("not offered here", 404)
        elif _is_below(path, _FILES):
            knows = _knows(Headers(scope=scope), authentication)
            answer = files if knows else PlainTextResponse("this needs the server's password", 401, _REALM)
        await answer(scope, receive, send_with_policy)

    return TrustedHostMiddleware(application, allowed_hosts=list(hosts), www_redirect=False)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _host(headers: Headers) -> str:
    """Return the name and port that a request was sent to; "" unless it is one."""
    name = headers.get("host", "")
    return name if re.fullmatch(r"[\w.:\[\]-]+", name) else ""


def _knows(headers: Headers, authentication: str) -> bool:
    scheme, _, string = headers.get("authorization", "").partition(" ")
    right = base64.b64encode(authentication.encode())
    return scheme.lower() == "basic" and hmac.compare_digest(string.strip().encode(), right)


def _policy(path: str, host: str) -> str:
    """Return which scripts the page at a path may run."""
    if not _is_below(path, _FILES):
        return _POLICY
    # Vega compiles its own expressions.
    return _POLICY_OF_FILES.format(
        scripts=" ".join(["'unsafe-eval'", *(f"{host}{each}" for each in _SCRIPTS)])
    )


async def _script(request: Request) -> Response:
    from reports.render import page_script  # what draws is loaded where something is shown

    return Response(page_script(), media_type="text/javascript")


async def _no_file(request: Request, fault: Exception) -> Response:
    status = fault.status_code if isinstance(fault, HTTPException) else 404
    return PlainTextResponse("there is no such report; the first run writes the index", status)
