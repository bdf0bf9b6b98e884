"""Serve a page on this machine until Ctrl-C."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from shiny import App, Inputs, Outputs, Session, reactive, render, ui

from flows.local_server import in_url, listening_at, loopback
from flows.page.files import PageFiles, opened_files
from flows.page.forecasts import Forecasts
from flows.page.releasing import Releasing
from flows.page.state import State
from flows.page.steps import budget, columns, forecast, questions, release
from tasks.errors import SpecError

_STEPS = {
    "1 Columns": columns,
    "2 Questions": questions,
    "3 Forecast": forecast,
    "4 Budget": budget,
    "5 Release": release,
}
_STYLE = """
body { font-size: 16px; } h1 { font-size: 1.5rem; margin-top: .6em; }
h2 { font-size: 1.15rem; margin-top: 1.2em; }
fieldset.column { border-top: 1px solid var(--bs-border-color); padding: .5em 0; }
.fields { display: none; } fieldset:has([value=number]:checked) .number,
fieldset:has([value=category]:checked) .category, fieldset:has([value=time]:checked) .time { display: block; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(15rem, 100%), 1fr)); gap: 0 1rem; }
.grid > .btn { align-self: center; }
legend { font-size: 1rem; font-weight: 600; float: none; } label { font-size: .9rem; }
.boxes { max-height: 12rem; overflow-y: auto; } .scroll { overflow-x: auto; } .scroll table { width: auto; }
.banner { border: 1px solid #a34a07; border-radius: 6px; padding: .6em .9em; }
.ok { color: var(--bs-success-text-emphasis); }
.chart { width: 100%; max-width: 38rem; font-size: 11px; } .chart text { fill: currentColor; }
.chart .marker { stroke: currentColor; stroke-dasharray: 4; }
.gauge { width: 100%; max-width: 40rem; height: 1rem; background: #8b929b55; }
.gauge .spent { fill: #0072b2; } .gauge .asked { fill: #c48500; }
iframe.results { width: 100%; height: 40rem; border: 1px solid var(--bs-border-color); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""
_DARK = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => { document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", theme); theme();
"""


def page_app(files: PageFiles) -> App:
    """Return the application of a page; each window reads the files anew."""
    releasing, forecasts = Releasing(files.study.parent), Forecasts()
    files.results.mkdir(mode=0o700, exist_ok=True)

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        state = State(files.again(), releasing, forecasts)
        for title, step in _STEPS.items():
            _show(title, step, input, output, state)

    panels = [ui.nav_panel(title, ui.output_ui(_place(title)), value=title) for title in _STEPS]
    header = ui.TagList(ui.tags.style(ui.HTML(_STYLE)), ui.tags.script(ui.HTML(_DARK)))
    title = f"dpcost: {files.name}"
    screen = ui.page_navbar(*panels, id="step", title=title, window_title=title, header=header, lang="en")
    return App(screen, server, static_assets={"/results": files.results})


def _place(title: str) -> str:
    return f"screen_{title[0]}"


def _show(title: str, step: Any, input: Inputs, output: Outputs, state: State) -> None:
    """Draw a step when it is chosen, and serve it."""

    @output(id=_place(title))
    @render.ui
    @reactive.event(input.step)
    def draw() -> ui.Tag | None:
        return ui.tags.main(step.screen(state)) if input.step() == title else None

    step.serve(input, state)


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
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        # Pair by pair: cookies of other programs on this machine may have any form.
        cookies = (each.strip() for name, text in pairs if name == "cookie" for each in text.split(";"))
        values = [
            value for name, _, value in (each.partition("=") for each in cookies) if name == self._cookie
        ]
        tokens = given, *values
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


def serve(file: str, folder: Path, port: int, say: Callable[[str], object]) -> None:
    """Serve the page of a table or study file, and say its address."""
    files = opened_files(file, folder)
    try:
        own = listening_at(loopback(), port)
    except (OSError, OverflowError) as error:
        raise SpecError(
            f"--port must be free on this machine, got {port} ({getattr(error, 'strerror', error)})"
        ) from None
    with own:
        port = own.getsockname()[1]
        app = Guarded(page_app(files), port)
        say(f"the page of {files.study.name}: http://{in_url(loopback())}:{port}/?token={app.token}")
        say("only this machine can open it; Ctrl-C closes it, and its files stay")
        with suppress(KeyboardInterrupt):  # the documented end
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[own])
