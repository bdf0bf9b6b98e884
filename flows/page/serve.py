"""Serve pages of tables on this machine until Ctrl-C."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import uvicorn
from shiny import App, Inputs, Outputs, Session, reactive, render, ui
from starlette.routing import Router

from data.tables.recent import remember
from flows.guard import Guarded, opened_browser
from flows.local_server import in_url, listening_at, loopback
from flows.page.parts import HEADER
from flows.page.releasing import Releasing
from flows.page.start import start_app
from flows.page.state import State
from flows.page.steps import budget, columns, forecast, questions, release
from tasks.errors import SpecError
from tasks.protocol.draft import Draft, opened_files
from tasks.protocol.foreseen import Forecasts

_STEPS = {
    "1 Columns": columns,
    "2 Questions": questions,
    forecast.TITLE: forecast,
    "4 Budget": budget,
    "5 Release": release,
}


def page_app(files: Draft) -> App:
    """Return the application of a page; each window reads the files anew."""
    releasing, forecasts = Releasing(files.study.parent), Forecasts()
    files.results.mkdir(mode=0o700, exist_ok=True)

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        state = State(files.again(), releasing, forecasts)
        for title, step in _STEPS.items():
            _show(title, step, input, output, state)

    panels = [ui.nav_panel(title, ui.output_ui(_place(title)), value=title) for title in _STEPS]
    first, *_, last = _STEPS
    header = ui.TagList(
        HEADER, ui.tags.nav(ui.a("Another table", href="/"), class_="other", aria_label="Tables")
    )
    title = f"dpcost: {files.name}"

    def screen(request: Any) -> ui.Tag:
        step = last if releasing.is_running or releasing.status is not None else first
        return ui.page_navbar(
            *panels, id="step", selected=step, title=title, window_title=title, header=header, lang="en"
        )

    return App(screen, server, static_assets={"/results": files.results})


def _place(title: str) -> str:
    return f"screen_{title[0]}"


def _show(title: str, step: Any, input: Inputs, output: Outputs, state: State) -> None:
    """Draw a step when it is chosen, and serve it; the first one, which follows from no other, once."""

    @output(id=_place(title))
    @render.ui
    def draw() -> ui.Tag | None:
        if step is not columns and input.step() != title:
            return None
        with reactive.isolate():
            return ui.tags.main(step.screen(state))

    step.serve(input, state)


class Desk:
    """The pages of tables, each under a number, and at the root the screen that opens them."""

    def __init__(self, folder: Path) -> None:
        self.router = Router(default=start_app(folder, self.open))
        self._places: dict[Path, str] = {}

    def open(self, files: Draft) -> str:
        """Return the place of a table's page; a page that was opened before goes on."""
        study = files.study.resolve()
        if study not in self._places:
            self._places[study] = f"/{len(self._places) + 1}"
            self.router.mount(self._places[study], page_app(files))
        remember(study)
        return f"{self._places[study]}/"


def serve(
    file: str, folder: Path, port: int, say: Callable[[str], object], *, open_browser: bool = False
) -> None:
    """Serve the page of a table or study file, or the screen that opens one, and say its address."""
    desk = Desk(folder)
    place = desk.open(opened_files(file, folder)) if file else "/"
    try:
        own = listening_at(loopback(), port)
    except (OSError, OverflowError) as error:
        raise SpecError(
            f"--port must be free on this machine, got {port} ({getattr(error, 'strerror', error)})"
        ) from None
    with own, ExitStack() as stack:
        port = own.getsockname()[1]
        app = Guarded(desk.router, port)
        address = f"http://{in_url(loopback())}:{port}{place}?token={app.token}"
        say(f"the page{f' of {file}' * bool(file)}: {address}")
        say("only this machine can open it; Ctrl-C closes it, and its files stay")
        if open_browser:
            stack.enter_context(opened_browser(address))
        with suppress(KeyboardInterrupt):  # the documented end
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[own])
