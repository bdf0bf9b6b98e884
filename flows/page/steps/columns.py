"""The first step: what is public about the table and its columns."""

from collections.abc import Callable
from typing import Any

from shiny import Inputs, reactive, render, ui

from flows.page.files import OPEN, number_of
from flows.page.state import State

FIELDS = {
    "number": ("lower", "upper", "unit", "missing", "source"),
    "text": ("categories", "missing", "source"),
}
_TITLES = {
    "lower": "Lowest possible value",
    "upper": "Highest possible value",
    "unit": "Unit",
    "categories": "All categories, by commas; the first is the reference",
    "missing": "Codes of a missing value, by commas",
    "source": "Where this comes from",
}
_LISTS = ("categories", "missing")
_ABOUT = (
    "Take bounds and categories from a codebook, a law or common knowledge, never from these rows. "
    "The page knows the names and types of the columns; it has kept no value of them."
)


def screen(state: State) -> ui.Tag:
    data = state.files.declared["data"]
    used = [each["name"] for each in state.files.columns]
    names = list(state.files.names)
    ids = {"": "each row"} | {name: f"each person of {name}" for name in names}
    return ui.div(
        ui.h2("What is public about the table"),
        ui.p(_ABOUT),
        ui.layout_columns(
            _text("privacy_unit", "What a row or person is, e.g. a patient", data.get("privacy_unit", "")),
            ui.input_select("user_id", "What is protected", ids, selected=data.get("user_id", "")),
            _text(
                "size",
                "Number of rows, or of persons if they are protected",
                str(data.get("users", data.get("rows", ""))),
            ),
            ui.input_select(
                "clusters",
                "Column of rows that belong together",
                ["none", *names],
                selected=data.get("clusters", "none"),
            ),
            ui.input_select(
                "missing_rule",
                "Rows with a missing cell",
                {"refuse": "refuse the table", "drop": "leave them out"},
                selected=data.get("missing", "refuse"),
            ),
            ui.input_select(
                "outside",
                "Numbers outside their bounds",
                {"refuse": "refuse the table", "clip": "clip them"},
                selected=data.get("outside", "refuse"),
            ),
            col_widths=4,
        ),
        ui.input_selectize(
            "used", "Columns that the questions need", names, selected=used, multiple=True, width="100%"
        ),
        ui.output_ui("column_fields"),
        ui.h3("Still missing or wrong"),
        ui.output_ui("column_faults"),
    )


def serve(input: Inputs, state: State) -> None:
    files = state.files

    @render.ui
    def column_fields() -> ui.Tag:
        known = {each["name"]: each for each in files.columns}
        return ui.div(
            *[
                _fields(files.names.index(name), name, known.get(name, {}), files.kinds[name])
                for name in input.used()
            ]
        )

    @reactive.effect
    def keep() -> None:
        plain = _declared(input, state)
        if plain != files.declared["data"]:
            with state.editing():
                files.declared["data"] = plain

    @render.ui
    def column_faults() -> ui.Tag:
        state.changed()
        faults = files.faults()
        if not faults:
            return ui.p("Nothing. The study file is complete.", class_="ok")
        return ui.tags.ul(*[ui.tags.li(each) for each in faults])


def _fields(number: int, name: str, known: dict[str, Any], kind: str) -> ui.Tag:
    """Return the fields of a column; those of the other kind appear if it is chosen."""
    of_kind = "text" if kind == "text" or known.get("categories") else "number"
    inputs = [
        ui.panel_conditional(
            f"input.kind_{number} == '{each}'",
            ui.layout_columns(
                *[
                    _text(f"{each}_{key}_{number}", _TITLES[key], _shown(known.get(key, "")))
                    for key in FIELDS[each]
                ]
            ),
        )
        for each in FIELDS
    ]
    choices = {"number": "a number", "text": "a category"}
    chooser = ui.input_radio_buttons(f"kind_{number}", f"{name} is", choices, selected=of_kind, inline=True)
    return ui.tags.fieldset(ui.tags.legend(name), chooser, *inputs, class_="column")


def _declared(input: Inputs, state: State) -> dict[str, Any]:
    """Return [data] as the fields state it; keys without a field stay."""
    data = dict(state.files.declared["data"])
    data["privacy_unit"] = input.privacy_unit().strip() or OPEN
    size, person = number_of(input.size()), input.user_id()
    for key in ("rows", "users", "user_id", "clusters"):
        data.pop(key, None)
    data |= {"user_id": person, "users": size} if person else {"rows": size, "clusters": input.clusters()}
    data |= {"missing": input.missing_rule(), "outside": input.outside()}
    known = {each["name"]: each for each in data["columns"]}
    data["columns"] = [
        _column(input, state.files.names.index(name), known.get(name, {"name": name}))
        for name in input.used()
    ]
    return data


def _column(input: Inputs, number: int, known: dict[str, Any]) -> dict[str, Any]:
    kind = _given(input, f"kind_{number}")
    if kind is None:  # its fields are not drawn yet
        return known if len(known) > 1 else {**known, "source": OPEN, "lower": OPEN, "upper": OPEN}
    column = {key: value for key, value in known.items() if key not in FIELDS["number"] + FIELDS["text"]}
    for key in FIELDS[kind]:
        text = (_given(input, f"{kind}_{key}_{number}") or "").strip()
        if key in _LISTS:
            if listed := [each.strip() for each in text.split(",") if each.strip()]:
                column[key] = listed
            elif key == "categories":
                column[key] = [OPEN]
        elif text or key != "unit":
            column[key] = number_of(text) if key in ("lower", "upper") else text or OPEN
    return column


def _given(input: Inputs, name: str) -> str | None:
    return str(input[name]()) if name in input else None


def _text(name: str, label: str, value: str) -> ui.Tag:
    return ui.input_text(name, label, value="" if value == OPEN else value, update_on="blur", width="100%")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


Step = Callable[[Inputs, State], None]
