"""The page: five steps, from columns to a release. It opens no rows; a release is a process of its own."""

from typing import Any

from shiny import App, Inputs, Outputs, Session, reactive, render, ui

from flows.page.files import PageFiles
from flows.page.forecasts import Forecasts
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
