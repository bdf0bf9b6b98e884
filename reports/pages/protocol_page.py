"""The page of an analysis plan: the plan as registered, its estimates, and later changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.pages.coefficient_table import Model, table_of
from reports.render import PageTable, render_page


def render_protocol(
    name: str,
    about: Sequence[str],
    plan: PageTable,
    estimates: Mapping[str, Model | str],
    deviations: Sequence[str],
    methods: str,
) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown; a question without an estimate has a reason."""
    tables = {
        question: estimate if isinstance(estimate, str) else table_of([replace(estimate, title="")])
        for question, estimate in estimates.items()
    }
    return render_page(
        "pages/protocol.jinja",
        name=name,
        about=about,
        plan=plan,
        estimates=tables,
        deviations=deviations,
        methods=methods,
    )
