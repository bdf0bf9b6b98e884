"""The page: five steps, from columns to a release. It opens no rows; a release is a process of its own."""

from typing import Any

from shiny import App, Inputs, Outputs, Session, reactive, render, ui

from flows.page.files import PageFiles
from flows.page.releasing import Releasing
from flows.page.state import State
from flows.page.steps import budget, columns, forecast, questions, release

_STEPS = {
    "1 Columns": columns,
    "2 Questions": questions,
    "3 Forecast": forecast,
    "4 Budget": budget,
    "5 Release": release,
}
_STYLE = """
fieldset.column { border-top: 1px solid #d9dde2; padding: .4em 0; }
legend { font-size: 1rem; font-weight: 600; }
table { border-collapse: collapse; } td, th { padding: .2em .9em .2em 0; vertical-align: top; }
.banner { border: 1px solid #a34a07; border-radius: 6px; padding: .6em .9em; } .ok { color: #1d6b3a; }
.chart { width: 100%; max-width: 34rem; font-size: 11px; }
.chart .marker { stroke: #5b6470; stroke-dasharray: 4; }
.gauge { width: 100%; max-width: 40rem; height: 1rem; background: #e4e7eb; }
.gauge .spent { fill: #0072b2; } .gauge .asked { fill: #c48500; }
iframe.results { width: 100%; height: 40rem; border: 1px solid #d9dde2; }
.shiny-html-output { overflow-x: auto; }
"""


def page_app(files: PageFiles) -> App:
    """Return the application of a page; each window reads the files anew."""
    releasing = Releasing(files.plan, files.results)
    files.results.mkdir(mode=0o700, exist_ok=True)

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        state = State(files.again(), releasing)
        for title, step in _STEPS.items():
            _show(title, step, input, output, state)

    panels = [ui.nav_panel(title, ui.output_ui(_place(title)), value=title) for title in _STEPS]
    screen = ui.page_navbar(
        *panels, id="step", title=f"dpcost: {files.name}", header=ui.tags.style(_STYLE), lang="en"
    )
    return App(screen, server, static_assets={"/results": files.results})


def _place(title: str) -> str:
    return f"screen_{title[0]}"


def _show(title: str, step: Any, input: Inputs, output: Outputs, state: State) -> None:
    """Draw a step when it is chosen, and serve it."""

    @output(id=_place(title))
    @render.ui
    @reactive.event(input.step)
    def draw() -> ui.Tag | None:
        return step.screen(state) if input.step() == title else None

    step.serve(input, state)
