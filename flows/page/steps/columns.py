"""The first step: whom the table is about, and the public facts of its columns."""

from collections import Counter
from typing import Any

from shiny import Inputs, reactive, render, ui

from flows.page.parts import check_boxes, faults_of, folded, grid, lines_field, select_field, text_field
from flows.page.state import State, text_of
from tasks.own_table.answers import answers_about_rows, kind_of, new_column, with_rows, with_texts
from tasks.own_table.typed import OPEN, count_of, number_of

UNITS = {
    "one": "Yes. Each row is protected.",
    "people": "No, several rows belong to one person. Each person is protected with all rows.",
    "groups": "Yes, and persons come in groups that share something, such as schools or clinics.",
}
PROTECTED = {
    "rows": "Protect persons, and release estimates without intervals. Persons of a group "
    "resemble each other, so intervals would be too short.",
    "groups": "Protect each group with all its persons. This is a stronger guarantee, with valid intervals. "
    "It needs many groups, and the forecast shows its price.",
    "independent": "Protect persons, and state that groups do not matter. Intervals are valid if persons "
    "of a group resemble each other no more than persons of different groups.",
}
KINDS = {"number": "a number", "binary": "0 or 1", "category": "a category", "time": "a time to an event"}
_FROM = "From a codebook, a law or the design, never from the rows."
_MISSING = {
    "missing": ("Codes of a missing value", 'Texts or numbers that mean missing, e.g. 99, NA or "9,9".'),
    "impute": ("Value in place of a missing one", "A constant, e.g. the middle of the range."),
}
_SOURCE = {"source": ("Where this comes from", "If it differs from the rest of the table, e.g. the tax law.")}
_NEEDED: dict[str, dict[str, tuple[str, str]]] = {
    "number": {
        "lower": ("Smallest possible value", f"E.g. 18 for adults. {_FROM}"),
        "upper": ("Largest possible value", f"E.g. 110 for an age. {_FROM}"),
    },
    "binary": {},
    "category": {
        "categories": ("All categories; the first is the reference", f"E.g. never, former, current. {_FROM}")
    },
    "time": {
        "upper": ("Longest follow-up", "E.g. 10 years. From the design of the study."),
        "periods": ("Cut points of periods (optional)", "E.g. 0, 1, 2, 5, 10; curves are shown there."),
    },
}
_MORE: dict[str, dict[str, tuple[str, str]]] = {
    "number": {
        "center": ("Typical value, guessed", "E.g. 40 for an age. It makes estimates more precise."),
        "scale": ("Standard deviation, guessed", "E.g. 15 for an age. From earlier studies."),
        "unit": ("Unit", "E.g. years."),
        **_MISSING,
        **_SOURCE,
    },
    "binary": {**_MISSING, **_SOURCE},
    "category": {
        "levels": ("Codes in the file", "One line a category, e.g. female = 2, F."),
        "others": ("Category of all texts that are not listed", "E.g. other."),
        **_MISSING,
        **_SOURCE,
    },
    "time": {
        "lower": ("Start of follow-up", "0, if it is left empty."),
        "resolution": ("Recorded in steps of", "E.g. 1 for whole months."),
        **_SOURCE,
    },
}
FIELDS = {kind: {**_NEEDED[kind], **_MORE[kind]} for kind in KINDS}
_RULES = {
    "missing": ("Rows with a missing cell", {"refuse": "refuse the table", "drop": "leave them out"}),
    "outside": ("Numbers outside their bounds", {"refuse": "refuse the table", "clip": "clip them"}),
}


def screen(state: State) -> ui.Tag:
    files = state.files
    data, names = files.declared["data"], list(files.kinds)
    typed = {name: f"{name} ({kind})" for name, kind in files.kinds.items()}
    used = [each["name"] for each in files.columns]
    return ui.div(
        ui.h1("The table"),
        ui.p(
            f"{files.name} has {len(names)} columns. The page knows their names and types, and none of their "
            "values."
        ),
        check_boxes("used", "Columns that the questions need", typed, used),
        ui.input_action_button("use_all", "Use all columns") if len(names) > 1 else None,
        _people(data, names),
        ui.h2("Their values"),
        text_field(
            "source_all",
            "Where do bounds and categories come from?",
            _common_source(files.columns),
            help=f"E.g. the codebook of the study. {_FROM}",
        ),
        ui.div(*[_fields(state, each) for each in files.columns], id="column_fields"),
        ui.h2("Still missing or wrong"),
        ui.output_ui("column_faults"),
    )


def _people(data: dict[str, Any], names: list[str]) -> ui.Tag:
    """Return the question about the unit of privacy, and the rest of the facts about rows."""
    unit, protect, by = answers_about_rows(data)
    of_column = {"": "choose a column", **dict(zip(names, names, strict=True))}
    rules = [
        select_field(f"rule_{key}", label, choices, data.get(key, "refuse"))
        for key, (label, choices) in _RULES.items()
    ]
    return ui.div(
        ui.h2("Is each row one person?"),
        ui.input_radio_buttons(
            "unit",
            "A firm, a visit or a school may take the place of a person.",
            UNITS,
            selected=unit,
            width="100%",
        ),
        ui.panel_conditional(
            "['people', 'groups'].includes(input.unit)",
            select_field(
                "by", "Which column names the person, or the group? E.g. patient or school.", of_column, by
            ),
        ),
        ui.panel_conditional(
            "input.unit == 'groups'",
            ui.input_radio_buttons(
                "protect", "What is protected?", PROTECTED, selected=protect, width="100%"
            ),
        ),
        ui.panel_conditional(
            "input.unit == 'people' || input.unit == 'groups' && input.protect == 'groups'",
            text_field(
                "users",
                "How many are there?",
                data.get("users"),
                help="E.g. 40 schools: their number as publicly known.",
            ),
        ),
        folded(
            "More about rows: their number, missing cells, weights",
            grid(
                text_field(
                    "privacy_unit",
                    "A row or person is",
                    data.get("privacy_unit"),
                    help="E.g. a patient; printed with each release.",
                ),
                text_field(
                    "size",
                    "Number of rows",
                    data.get("rows"),
                    help="As publicly known, e.g. in a report about the study.",
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
                        "max_weight",
                        "Largest weight, to which others are clipped",
                        data.get("max_weight"),
                        help=f"E.g. 3. {_FROM}",
                    ),
                ),
            ),
            is_open=OPEN in (data.get("privacy_unit"), data.get("rows")) or data.get("max_weight") == OPEN,
        ),
    )


def _common_source(columns: list[dict[str, Any]]) -> str:
    known = Counter(str(each["source"]) for each in columns if each.get("source", OPEN) != OPEN)
    return known.most_common(1)[0][0] if known else ""


def serve(input: Inputs, state: State) -> None:
    files = state.files

    @reactive.effect
    @reactive.event(input.use_all)
    def use_all() -> None:
        ids = {files.declared["data"].get("user_id"), files.declared["data"].get("weights")}
        ui.update_checkbox_group("used", selected=[name for name in files.kinds if name not in ids])

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
    if OPEN in (data.get("clusters"), data.get("user_id")):
        faults.append("Answer the question whether each row is one person, and choose its column.")
    if data.get("privacy_unit") == OPEN:
        faults.append("State what a row or person is, e.g. a patient.")
    if OPEN in (data.get("rows"), data.get("users")):
        faults.append("State the number of rows, persons or groups, as it is publicly known.")
    if data["columns"] and any(each.get("source") == OPEN for each in data["columns"]):
        faults.append("State where bounds and categories come from.")
    for column in data["columns"]:
        fields = FIELDS[kind_of(column)]
        still = {key for key, value in column.items() if value in (OPEN, [OPEN])} - {"source"}
        names = [label for key, (label, _) in fields.items() if key in still]
        faults += [f"{column['name']}: {', '.join(names)}"] if names else []
    return faults


def _fields(state: State, known: dict[str, Any]) -> ui.Tag:
    """Return the fields of a column; those of another kind appear if it is chosen."""
    number, name = _number(state, known["name"]), known["name"]

    def drawn(kind: str, of_kind: dict[str, tuple[str, str]]) -> list[ui.Tag]:
        facts = (
            known if known.get("source") != _common_source(state.files.columns) else known | {"source": ""}
        )
        return [
            (lines_field if key == "levels" else text_field)(
                f"{kind}_{key}_{number}", label, facts.get(key), help=hint
            )
            for key, (label, hint) in of_kind.items()
        ]

    fields = [
        ui.div(
            grid(*drawn(kind, _NEEDED[kind])),
            folded(f"More about {name}", grid(*drawn(kind, _MORE[kind]))),
            class_=f"fields {kind}",
        )
        for kind in KINDS
    ]
    chosen = kind_of(known, state.files.kinds[name])
    chooser = ui.input_radio_buttons(f"kind_{number}", "It is", KINDS, selected=chosen, inline=True)
    return ui.tags.fieldset(ui.tags.legend(name), chooser, *fields, class_="column", id=f"column_{number}")


def _number(state: State, name: str) -> int:
    return list(state.files.kinds).index(name)


def _declared(input: Inputs, state: State) -> dict[str, Any]:
    """Return [data] as the fields state it; keys without a field stay."""
    of_weights = ("weights", "max_weight")
    data = {key: value for key, value in state.files.declared["data"].items() if key not in of_weights}
    if weights := input.weights():
        data |= {"weights": weights, "max_weight": number_of(input.max_weight())}
    data |= {key: input[f"rule_{key}"]() for key in _RULES}
    data["privacy_unit"] = input.privacy_unit().strip() or OPEN
    numbers = {"rows": count_of(input.size()), "users": count_of(input.users())}
    data = with_rows(data, unit=text_of(input.unit), protect=input.protect(), by=input.by(), **numbers)
    known, source = {each["name"]: each for each in data["columns"]}, input.source_all().strip() or OPEN
    kinds = state.files.kinds
    data["columns"] = [
        _column(input, _number(state, name), known.get(name) or new_column(name, kinds[name]), source)
        for name in input.used()
    ]
    return data


def _column(input: Inputs, number: int, known: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a column as its fields state it; as it was, if they are not drawn yet."""
    kind = text_of(input[f"kind_{number}"])
    if not kind or not input[f"{kind}_source_{number}"].is_set():
        return known if known.get("source", OPEN) != OPEN else known | {"source": source}
    texts = {key: text_of(input[f"{kind}_{key}_{number}"]) for key in FIELDS[kind]}
    return {"source": source, **with_texts(known, kind, texts)}
