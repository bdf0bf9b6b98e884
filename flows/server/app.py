"""``python -m flows.server.app --port N``: the Prefect server, ``/reports``, ``/site`` (the docs).

It listens on the loopback interface unless told otherwise, and answers only requests that call it by one of
its names. Prefect asks for the authentication string below ``/api``; reports and the description of the API
ask for the same string, as name and password. The pages, which hold no data, load without it.
"""

import argparse
import base64
import hmac
import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.store.folders import REPORTS, SITE
from flows.server.prefect_server import HOST

_FILES = ("/reports", "/site")
_DESCRIPTIONS = ("/docs", "/redoc", "/openapi.json")  # of the API, which Prefect shows to anyone


def guarded(
    prefect: ASGIApp, folder: Path, authentication: str, port: int, known_as: list[str], site: Path = SITE
) -> ASGIApp:
    """Return the whole application: Prefect's, the reports in a folder, and what both refuse.

    `authentication` is ``name:password``; `known_as` are other names, with ports, that it is reached by.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = Starlette(
        routes=[
            Route("/reports", lambda request: RedirectResponse("/reports/")),
            Route("/site", lambda request: RedirectResponse("/site/")),
            Mount("/reports", StaticFiles(directory=folder, html=True)),
            Mount("/site", StaticFiles(directory=site, html=True, check_dir=False)),
        ],
        exception_handlers={HTTPException: _no_file, OSError: _no_file, RuntimeError: _no_file},
    )
    expected = b"Basic " + base64.b64encode(authentication.encode())
    places = [f"{HOST}:{port}", f"localhost:{port}", *known_as]
    reached = [f"{scheme}://{place}" for place in places for scheme in ("http", "https", "ws", "wss")]
    # Prefect's pages would load logos and report their use elsewhere.
    policy = (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
        f"connect-src 'self' {' '.join(reached)}; frame-ancestors 'none'; form-action 'self'"
    ).encode()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", policy)]
            await send(message)

        path = scope.get("path", "")
        first = f"/{path.split('/')[1]}" if path else ""
        if scope["type"] == "http" and path.startswith("/api/collections/"):
            # Prefect would ask the network for its list of integrations.
            await PlainTextResponse("not offered here", 404)(scope, receive, sending)
        elif scope["type"] != "http" or first not in (*_FILES, *_DESCRIPTIONS):
            await prefect(scope, receive, sending)
        elif not hmac.compare_digest(dict(scope["headers"]).get(b"authorization", b""), expected):
            challenge = {"www-authenticate": 'Basic realm="dpcost"'}
            refusal = PlainTextResponse("this needs the server's name and password", 401, challenge)
            await refusal(scope, receive, sending)
        else:
            await (files if first in _FILES else prefect)(scope, receive, sending)

    names = {place.partition(":")[0] for place in places}
    return TrustedHostMiddleware(application, allowed_hosts=sorted(names), www_redirect=False)


async def _no_file(request: Request, fault: Exception) -> Response:
    status = fault.status_code if isinstance(fault, HTTPException) else 404
    site = request.url.path.startswith("/site")
    sentence = "there is no such page; make docs builds the documentation"
    return PlainTextResponse(
        sentence if site else "there is no such report; the first run writes the index", status
    )


def main() -> None:
    """Serve until a signal to stop arrives."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.app", description=main.__doc__)
    parser.add_argument("--port", type=int, default=4200, help="the port to listen on (default 4200)")
    parser.add_argument("--host", default=HOST, help=f"the interface to listen on (default {HOST})")
    parser.add_argument(
        "--known-as",
        action="append",
        default=[],
        help="NAME or NAME:PORT of an address it is reached by; may be repeated",
    )
    options = parser.parse_args()
    secret = os.environ.get("PREFECT_SERVER_API_AUTH_STRING", "")
    if not secret:
        parser.error("set PREFECT_SERVER_API_AUTH_STRING to NAME:PASSWORD, which every request will need")

    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_LOGGING_LEVEL

    uvicorn.run(
        guarded(create_app(final=True), REPORTS, secret, options.port, options.known_as),
        host=options.host,
        port=options.port,
        log_level=PREFECT_SERVER_LOGGING_LEVEL.value().lower(),
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
