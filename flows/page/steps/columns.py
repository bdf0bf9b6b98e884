"""The first step: the public facts of the table and its columns."""

from typing import Any

from shiny import Inputs, reactive, render, ui

from flows.page.files import OPEN, codes_of, list_of, number_of
from flows.page.parts import check_boxes, faults_of, grid, lines_field, select_field, text_field
from flows.page.state import State, text_of

KINDS = {"number": "a number", "category": "a category", "time": "a time to an event"}
_BOUNDS = {"lower": "Smallest possible value", "upper": "Largest possible value"}
_GUESSED = {"center": "Typical value, guessed (optional)", "scale": "Standard deviation, guessed (optional)"}
_ALWAYS = {
    "missing": "Codes of a missing value (optional)",
    "impute": "Value in place of a missing one (optional)",
    "source": "Where this comes from",
}
FIELDS = {
    "number": {**_BOUNDS, **_GUESSED, "unit": "Unit (optional)", **_ALWAYS},
    "category": {
        "categories": "All categories; the first is the reference",
        "levels": "Codes in the file, one line a category, e.g. female = 2, F (optional)",
        "others": "Category of all texts that are not listed (optional)",
        **_ALWAYS,
    },
    "time": {
        "lower": "Start of follow-up",
        "upper": "Longest follow-up",
        "resolution": "Recorded in steps of, e.g. 1 for whole months (optional)",
        "periods": "Cut points of periods (optional)",
        "source": _ALWAYS["source"],
    },
}
_OPEN = {"lower", "upper", "categories", "source"}  # a person must state them
_LISTS = {"categories", "missing", "periods"}
_TEXTS = {"unit", "source", "categories", "others", "missing"}
_ABOUT = (
    "Take bounds and categories from a codebook, a law or common knowledge, never from these rows. Separate "
    "several values by commas. The page knows the names and types of the columns, and none of their values."
)
_RULES = {
    "missing": ("Rows with a missing cell", {"refuse": "refuse the table", "drop": "leave them out"}),
    "outside": ("Numbers outside their bounds", {"refuse": "refuse the table", "clip": "clip them"}),
}


def screen(state: State) -> ui.Tag:
    data, names = state.files.declared["data"], list(state.files.kinds)
    ids = {"": "each row"} | {name: f"each person of {name}" for name in names}
    rules = [
        select_field(f"rule_{key}", label, choices, data.get(key, "refuse"))
        for key, (label, choices) in _RULES.items()
    ]
    return ui.div(
        ui.h1("The table"),
        ui.p(_ABOUT),
        grid(
            text_field("privacy_unit", "A row or person is", data.get("privacy_unit"), "e.g. a patient"),
            select_field("user_id", "Protected is", ids, data.get("user_id", "")),
            text_field("size", "Number of rows, or of persons", data.get("users", data.get("rows"))),
            ui.panel_conditional(
                "input.user_id == ''",
                select_field(
                    "clusters", "Rows belong together by", ["none", *names], data.get("clusters", "none")
                ),
            ),
            *rules,
            select_field(
                "weights",
                "Weights",
                {"": "none", **dict(zip(names, names, strict=True))},
                data.get("weights", ""),
            ),
            ui.panel_conditional(
                "input.weights != ''",
                text_field(
                    "max_weight", "Largest weight, to which others are clipped", data.get("max_weight")
                ),
            ),
        ),
        check_boxes(
            "used", "Columns that the questions need", names, [each["name"] for each in state.files.columns]
        ),
        ui.div(*[_fields(state, each) for each in state.files.columns], id="column_fields"),
        ui.h2("Still missing or wrong"),
        ui.output_ui("column_faults"),
    )


def serve(input: Inputs, state: State) -> None:
    files = state.files

    @reactive.effect
    @reactive.event(input.user_id, ignore_init=True)
    def other_unit() -> None:  # the number of rows is no number of persons
        if input.user_id() != files.declared["data"].get("user_id", ""):
            ui.update_text("size", value="")

    @reactive.effect
    def keep() -> None:
        declared = _declared(input, state)
        before = {each["name"]: each for each in files.columns}
        after = {each["name"]: each for each in declared["columns"]}
        for name in before.keys() - after.keys():
            ui.remove_ui(f"#column_{_number(state, name)}", immediate=True)
        if new := [_fields(state, after[name]) for name in after if name not in before]:
            ui.insert_ui(ui.TagList(*new), "#column_fields", "beforeEnd", immediate=True)
        if declared != files.declared["data"]:
            with state.editing():
                files.declared["data"] = declared

    @render.ui
    def column_faults() -> ui.Tag:
        state.changed()
        missing = _open(files.declared["data"])
        return faults_of(missing + files.faults(besides_open=bool(missing)), "Nothing. Go on with step 2.")


def _open(data: dict[str, Any]) -> list[str]:
    """Return the fields that a person has still to fill."""
    faults = ["Choose the columns that the questions need."] if not data["columns"] else []
    if data.get("privacy_unit") == OPEN:
        faults.insert(0, "State what a row or person is, e.g. a patient.")
    if OPEN in (data.get("rows"), data.get("users")):
        faults.append("State the number of rows or persons, as it is publicly known.")
    for column in data["columns"]:
        labels = {**FIELDS["time"], **FIELDS["category"], **FIELDS["number"]}
        names = [labels[key] for key, value in column.items() if value in (OPEN, [OPEN])]
        faults += [f"{column['name']}: {', '.join(names)}"] * bool(names)
    return faults


def _fields(state: State, known: dict[str, Any]) -> ui.Tag:
    """Return the fields of a column; those of another kind appear if it is chosen."""
    number = _number(state, known["name"])
    fields = [
        ui.div(
            grid(
                *[
                    (lines_field if key == "levels" else text_field)(
                        f"{each}_{key}_{number}", label, known.get(key)
                    )
                    for key, label in of_kind.items()
                ]
            ),
            class_=f"fields {each}",
        )
        for each, of_kind in FIELDS.items()
    ]
    chooser = ui.input_radio_buttons(f"kind_{number}", "It is", KINDS, selected=_kind_of(known), inline=True)
    return ui.tags.fieldset(
        ui.tags.legend(known["name"]), chooser, *fields, class_="column", id=f"column_{number}"
    )


def _kind_of(known: dict[str, Any]) -> str:
    if known.get("periods") or known.get("resolution"):
        return "time"
    return "category" if "categories" in known or "levels" in known else "number"


def _number(state: State, name: str) -> int:
    return list(state.files.kinds).index(name)


def _declared(input: Inputs, state: State) -> dict[str, Any]:
    """Return [data] as the fields state it; keys without a field stay."""
    data = dict(state.files.declared["data"])
    for key in ("rows", "users", "user_id", "clusters", "weights", "max_weight"):
        data.pop(key, None)
    size, person, weights = number_of(input.size()), input.user_id(), input.weights()
    data |= {"user_id": person, "users": size} if person else {"rows": size, "clusters": input.clusters()}
    data |= {"weights": weights, "max_weight": number_of(input.max_weight())} if weights else {}
    data |= {key: input[f"rule_{key}"]() for key in _RULES}
    data["privacy_unit"] = input.privacy_unit().strip() or OPEN
    known = {each["name"]: each for each in data["columns"]}
    data["columns"] = [
        _column(input, _number(state, name), known.get(name) or _new(state, name)) for name in input.used()
    ]
    return data


def _new(state: State, name: str) -> dict[str, Any]:
    """Return a column of which only name and type are known."""
    open_facts: dict[str, Any] = {"lower": OPEN, "upper": OPEN}
    if state.files.kinds[name] == "text":
        open_facts = {"categories": [OPEN]}
    return {"name": name, **open_facts, "source": OPEN}


def _column(input: Inputs, number: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return a column as its fields state it; as it was, if they are not drawn yet."""
    kind = text_of(input[f"kind_{number}"])
    if not kind or not input[f"{kind}_source_{number}"].is_set():
        return known
    column = {key: value for key, value in known.items() if not any(key in each for each in FIELDS.values())}
    for key in FIELDS[kind]:
        text = text_of(input[f"{kind}_{key}_{number}"])
        if text or key in _OPEN:
            column[key] = _value(kind, key, text)
    return column


def _value(kind: str, key: str, text: str) -> Any:
    if key == "levels":
        return codes_of(text)
    read = str if key in _TEXTS or (key == "impute" and kind == "category") else number_of
    if key in _LISTS:
        return [read(each) for each in list_of(text)] or [OPEN]
    return read(text) if text else OPEN
