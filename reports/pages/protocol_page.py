"""The page of an analysis plan: the plan as registered, its estimates, and later changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.pages.coefficient_table import Model, table_of
from reports.render import PageTable, Section, render_page


def render_protocol(
    name: str,
    about: Sequence[str],
    plan: PageTable,
    estimates: Mapping[str, Model | str],
    deviations: Sequence[str],
    methods: str,
) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown; a question without an estimate has a reason."""
    tables = [
        Section(question, estimate)
        if isinstance(estimate, str)
        else Section(question, table=table_of([replace(estimate, title="")]))
        for question, estimate in estimates.items()
    ]
    sections = [
        Section("The protocol as registered", about, table=plan),
        *tables,
        Section("Deviations", "" if deviations else "None.", bullets=deviations),
        Section("For a methods section", methods.split("\n\n")),
    ]
    sentence = f"{len(estimates)} questions within one budget"
    return render_page(
        f"Protocol {name}", f"The analysis plan {name} and its estimates", sections, sentence=sentence
    )
