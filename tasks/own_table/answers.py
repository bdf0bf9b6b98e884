"""The ``[data]`` of a study file, from the words and choices of a person."""

from collections.abc import Mapping
from typing import Any

from tasks.own_table.typed import OPEN, codes_of, list_of, number_of

_OF_ROWS = ("rows", "users", "user_id", "clusters")
_A_PERSON, _A_GROUP = "a person", "a group of persons"
_OF_COLUMNS = {
    *("lower", "upper", "center", "scale", "unit", "missing", "impute", "source"),
    *("categories", "levels", "others", "periods", "resolution"),
}
_MUST_BE_STATED = ("lower", "upper", "categories")
_LISTS = ("categories", "missing", "periods")
_TEXTS = ("unit", "source", "categories", "others", "missing")


def with_rows(
    data: Mapping[str, Any], *, unit: str, protect: str, by: str, rows: Any, users: Any
) -> dict[str, Any]:
    """Return ``[data]`` with what a row is and who is protected.

    ``unit``: each row is "one" person, several belong to one of the "people", persons come in "groups", or
    "" before a choice. ``protect``, with groups: "rows" without intervals, whole "groups", or "independent"
    rows. ``by`` is the column that names the person or the group.
    """
    plain = {key: value for key, value in data.items() if key not in _OF_ROWS}
    of_groups = unit == "groups" and protect == "groups"
    if plain.get("privacy_unit", _A_PERSON) in (_A_PERSON, _A_GROUP):
        plain["privacy_unit"] = _A_GROUP if of_groups else _A_PERSON
    if unit == "people" or of_groups:
        named = {"clusters": by} if of_groups and by else {}
        return plain | {"user_id": by or OPEN, "users": users, "missing": "refuse", **named}
    is_open = not unit or (unit == "groups" and not by)
    clusters = by if unit == "groups" and protect == "rows" else "none"
    return plain | {"rows": rows, "clusters": OPEN if is_open else clusters}


def answers_about_rows(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return ``unit``, ``protect`` and ``by`` of `with_rows`, as ``[data]`` states them."""
    user_id, clusters = data.get("user_id", ""), data.get("clusters", OPEN)
    if user_id:
        return ("groups", "groups", user_id) if clusters == user_id else ("people", "rows", user_id)
    unit = {OPEN: "", "none": "one"}.get(clusters, "groups")
    return unit, "rows", clusters if unit == "groups" else ""


def new_column(name: str, of_table: str) -> dict[str, Any]:
    """Return a column of which only name and type are known."""
    facts = {"categories": [OPEN]} if of_table == "text" else {"lower": OPEN, "upper": OPEN}
    return {"name": name, **facts, "source": OPEN}


def kind_of(column: Mapping[str, Any], of_table: str = "whole number") -> str:
    """Return "number", "binary", "category" or "time", as a column is declared."""
    if column.get("periods") or column.get("resolution"):
        return "time"
    if (column.get("lower"), column.get("upper")) == (0, 1) and of_table == "whole number":
        return "binary"
    return "category" if "categories" in column or "levels" in column else "number"


def with_texts(column: Mapping[str, Any], kind: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a column of some kind with what a person typed for each key that the kind has."""
    stated = {key: value for key, value in column.items() if key not in _OF_COLUMNS}
    stated |= {"binary": {"lower": 0, "upper": 1}, "time": {"lower": 0}}.get(kind, {})
    for key, text in texts.items():
        if text or (key in _MUST_BE_STATED and key not in stated):
            stated[key] = _value(kind, key, text)
    return stated


def _value(kind: str, key: str, text: str) -> Any:
    if key == "levels":
        return codes_of(text)
    read = str if key in _TEXTS or (key == "impute" and kind == "category") else number_of
    if key in _LISTS:
        return [read(each) for each in list_of(text)] or [OPEN]
    return read(text) if text else OPEN
