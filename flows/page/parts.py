"""Fields and tables, drawn the same in all steps."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiny import ui

from tasks.own_table.typed import OPEN, quoted_entry, text_of_list

_SCRIPT = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => { document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", theme); theme();
addEventListener("pageshow", (shown) => { if (shown.persisted) location.reload(); });  // after "back"
$(document).on("shiny:disconnected", () => {
  const said = document.createElement("p");
  said.className = "stopped";
  said.role = "alert";
  said.innerText = "This page has stopped, and its files stay. A release that was under way goes on. " +
    "Run dpcost open again: step 4 lists what was paid, and step 5 shows the results.";
  document.body.prepend(said);
});
"""
HEADER = ui.TagList(
    ui.include_css(Path(__file__).with_name("style.css"), method="inline"), ui.tags.script(ui.HTML(_SCRIPT))
)


def document(title: str, *parts: Any) -> ui.Tag:
    """Return a whole page with the style of all pages."""
    return ui.page_fluid(HEADER, *parts, title=title, lang="en")


def text_field(name: str, label: str, value: Any = "", placeholder: str = "", help: str = "") -> ui.Tag:
    """Return a field that is read when a person leaves it; an open value is shown as empty."""
    text = text_of_list(value) if isinstance(value, list) else "" if value in (None, OPEN) else str(value)
    return ui.input_text(
        name, _label(label, help), text, placeholder=placeholder, update_on="blur", width="100%"
    )


def lines_field(name: str, label: str, value: Mapping[str, list[str]] | None, help: str = "") -> ui.Tag:
    """Return a field with the codes of a category on each line."""
    text = "\n".join(
        f"{quoted_entry(category)} = {text_of_list([*codes])}" for category, codes in (value or {}).items()
    )
    return ui.input_text_area(name, _label(label, help), text, rows=3, update_on="blur", width="100%")


def _label(label: str, help: str) -> ui.TagList:
    return ui.TagList(label, ui.tags.small(help, class_="hint") if help else None)


def folded(title: str, *parts: Any, is_open: bool = False) -> ui.Tag:
    """Return parts that a person unfolds."""
    return ui.tags.details(ui.tags.summary(title), *parts, open="" if is_open else None)


def select_field(name: str, label: str, choices: Any, selected: Any = None) -> ui.Tag:
    return ui.input_select(name, label, choices, selected=selected, width="100%")


def check_boxes(
    name: str, label: str, choices: Sequence[str] | Mapping[str, str], chosen: Sequence[str] = ()
) -> ui.Tag:
    """Return a box for each of many columns."""
    boxes = ui.input_checkbox_group(
        name,
        label,
        dict(choices) if isinstance(choices, Mapping) else list(choices),
        selected=list(chosen),
        inline=True,
        width="100%",
    )
    return ui.div(boxes, class_="boxes")


def grid(*parts: Any) -> ui.Tag:
    """Return fields next to each other; hidden fields take no place."""
    return ui.div(*parts, class_="grid")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> ui.Tag:
    """Return a table, which scrolls on a phone."""
    lines = [ui.tags.tr(*[ui.tags.td(cell) for cell in row]) for row in rows]
    first = ui.tags.tr(*[ui.tags.th(each, scope="col") for each in head])
    title = ui.tags.caption(caption) if caption else None
    whole = ui.tags.table(title, ui.tags.thead(first), ui.tags.tbody(*lines), class_="table table-sm")
    return _scrolled(whole, caption or head[0])


def chart(picture: str, title: str) -> ui.Tag:
    """Return a picture, which scrolls on a phone."""
    return _scrolled(ui.HTML(picture), title)


def _scrolled(part: Any, title: str) -> ui.Tag:
    return ui.div(part, class_="scroll", tabindex="0", role="region", aria_label=title)


def banner(text: str) -> ui.Tag:
    return ui.p(text, class_="banner", role="status")


def faults_of(faults: Sequence[str], complete: str) -> ui.Tag:
    """Return what is missing or wrong, or that nothing is."""
    if not faults:
        return ui.p(complete, class_="ok", role="status")
    return ui.tags.ul(*[ui.tags.li(each) for each in faults])
