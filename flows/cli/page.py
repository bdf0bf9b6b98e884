"""``dpcost open``: a local page to declare a table, forecast intervals and release."""

import os
import sys
from pathlib import Path
from typing import Annotated

from flows.cli.options import argument, echo, flag, option
from tasks import SpecError


def open_page(
    file: Annotated[
        str,
        argument("FILE", "Table, address of a query, or study file of either; default: chosen on the page."),
    ] = "",
    port: Annotated[int, option("PORT", "Port on this machine; default: a free one.", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, flag("--no-browser", "Print the address only.")] = False,
) -> None:
    """Open a local page to declare a table, forecast intervals and release; Ctrl-C closes it."""
    try:
        from flows.page.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("shiny", "tomli_w"):
            raise
        raise SpecError('the page needs the package shiny; install it: pip install "dpcost[page]"') from None
    if file:
        _confirm_query(file, Path.cwd())
    has_screen = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}
    serve(file, Path.cwd(), port, echo, open_browser=bool(has_screen) and not no_browser)


def _confirm_query(file: str, folder: Path) -> None:
    """Ask whether a query of a study file may run; one that the person has typed may."""
    from data.tables.sources import source_of
    from flows.confirm import confirm_query_of, confirm_typed_query
    from tasks.protocol.draft import declared_in

    study = folder / file
    if not file.endswith(".toml"):
        confirm_typed_query(source_of(file, folder))
    elif study.exists():
        path = str(declared_in(study)["data"].get("path", ""))
        confirm_query_of(study, source_of(path, folder))
