"""``dpcost open``: a local page to declare a table, foresee a release, and make it."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import argument, option
from tasks import SpecError


def open_page(
    file: Annotated[str, argument("FILE", "Table, address of a query, or study file of either.")],
    port: Annotated[int, option("PORT", "Port on this machine; default: a free one.", min=0, max=65535)] = 0,
) -> None:
    """Open a local page to declare a table, foresee its release and make it; Ctrl-C closes it."""
    try:
        from flows.page.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("shiny", "tomli_w"):
            raise
        raise SpecError('the page needs the package shiny; install it: pip install "dpcost[page]"') from None
    serve(file, Path.cwd(), port, typer.echo)
