"""The screen that opens a table: an earlier one, one of this folder, a chosen file, or the demo."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shiny import App, Inputs, Outputs, Session, reactive, ui

from data.store.folders import sha256_file
from data.tables.demo import demo_study
from data.tables.queries import Query
from data.tables.recent import MOST, recent_studies
from data.tables.sources import source_of
from flows.page.parts import document, folded, grid, select_field
from flows.page.state import telling
from tasks.errors import SpecError
from tasks.protocol.draft import Draft, declared_in, opened_files

_KINDS = (".csv", ".tsv", ".parquet", ".toml")
_MARKS = {"": "plainly, e.g. 1234.5", ",": "as 1.234,5", ".": "as 1,234.5"}
_GO = "Shiny.addCustomMessageHandler('go', (to) => location.assign(to.place));"
Opener = Callable[[Draft], str]  # returns the place of a table's page


def start_app(folder: Path, open_page: Opener) -> App:
    """Return the application of the first screen."""

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        _serve(folder, open_page, input, session)

    return App(lambda request: _screen(folder), server)


def _screen(folder: Path) -> ui.Tag:
    here = sorted(each.name for each in folder.iterdir() if each.suffix in _KINDS and each.is_file())
    recent = {str(each): f"{each.stem} ({each.parent})" for each in recent_studies()}
    lists = {"Opened before": recent, f"In {folder}": {name: name for name in here[:MOST]}}
    known = {title: each for title, each in lists.items() if each}
    return document(
        "dpcost",
        ui.tags.main(
            ui.h1("Which table?"),
            ui.p(
                "Foresee how precise an analysis with differential privacy will be, and release it. All "
                "stays on this machine. The page reads names and types of columns, and no value."
            ),
            grid(select_field("known", "A table that is here", known), _button("open_known", "Open it"))
            if known
            else None,
            ui.input_file(
                "upload",
                "Or drop a file here, or choose one: CSV or Parquet",
                accept=[*_KINDS[:3]],
                width="100%",
            ),
            folded(
                "A CSV file with marks between thousands",
                select_field("decimal", "Its numbers are written", _MARKS),
            ),
            ui.p(
                "Or try the page with a demo table: 4,000 simulated students, with declared columns. "
                "No real person is in it."
            ),
            _button("demo", "Open the demo table"),
            class_="container",
        ),
        ui.tags.script(ui.HTML(_GO)),
    )


def _button(name: str, label: str) -> ui.Tag:
    return ui.input_action_button(name, label, class_="btn-primary")


def _serve(folder: Path, open_page: Opener, input: Inputs, session: Session) -> None:
    async def go(find: Callable[[], tuple[str, Path]]) -> None:
        with telling():
            place = open_page(opened_files(*find(), input.decimal()))
            await session.send_custom_message("go", {"place": place})

    @reactive.effect
    @reactive.event(input.open_known)
    async def open_known() -> None:
        await go(lambda: _without_query(folder / input.known()))

    @reactive.effect
    @reactive.event(input.upload)
    async def open_upload() -> None:
        await go(lambda: (_copied(input.upload()[0], folder).name, folder))

    @reactive.effect
    @reactive.event(input.demo)
    async def open_demo() -> None:
        await go(lambda: (demo_study(folder).name, folder))


def _without_query(path: Path) -> tuple[str, Path]:
    """Return the name and folder of a table or study file; a terminal confirms queries."""
    if path.suffix == ".toml":
        source = source_of(str(declared_in(path)["data"].get("path", "")), path.parent)
        if isinstance(source, Query):
            raise SpecError(
                f"{path.name} has a query; to read and allow it, run dpcost open {path} in a terminal"
            )
    return path.name, path.parent


def _copied(upload: Any, folder: Path) -> Path:
    """Return the copy of an uploaded file in a folder; another file of this name is not replaced."""
    uploaded, path = Path(upload["datapath"]), folder / Path(upload["name"]).name
    if path.exists() and sha256_file(path) != sha256_file(uploaded):
        raise SpecError(
            f"{path.name} must be a new name in {folder}, got that of another file; rename your file"
        )
    if not path.exists():
        shutil.copyfile(uploaded, path)
        path.chmod(0o600)
    return path
