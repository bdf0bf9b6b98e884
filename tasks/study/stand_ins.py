"""Stand-ins for what is open or wrong in a study's ``[data]``, so that all else can be checked."""

import copy
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tasks.problems.analyst_table import AnalystTable
from tasks.problems.public_rows import PublicTable

OPEN = ("?", ["?"])  # what stands where the owner has yet to declare something
_OF_TABLE: dict[str, Any] = {"path": "?", "rows": 10**9, "privacy_unit": "?"}
_PASSES = 3  # columns, then what holds between them, then the table


class TablesOfFile(BaseModel):
    """The study file's ``[data]`` and ``[public]``, so that errors name their place in it."""

    data: AnalystTable
    public: PublicTable | None = None


def with_stand_ins(plain: dict[str, Any]) -> tuple[dict[str, Any], list[ErrorDetails], set[str]]:
    """Return a file's content with valid tables, what is wrong in them, and the names of replaced columns.

    Where no stand-in helps, for want of columns, the content has no ``data`` any more.
    """
    tables: dict[str, Any] = {key: copy.deepcopy(plain[key]) for key in ("data", "public") if key in plain}
    faults: list[ErrorDetails] = []
    replaced = _fill_open(tables["data"])
    were_open = set(replaced)
    for _ in range(_PASSES):
        try:
            TablesOfFile(**tables)
        except ValidationError as error:
            for fault in error.errors():
                name = _replace(tables, fault["loc"])
                if not (name in were_open and fault["type"] == "value_error"):
                    faults.append(fault)
                replaced |= {name} - {""}
        else:
            return {**_without(plain, "public"), **tables}, faults, replaced
    return _without(plain, "data", "public"), faults, replaced


def _without(plain: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key not in keys}


def _fill_open(data: dict[str, Any]) -> set[str]:
    """Fill what is open in the table's keys and columns, in place; return the columns that were open."""
    keys = {key for key, value in data.items() if value in OPEN}
    data.update({key: _OF_TABLE.get(key, "?") for key in keys})
    columns = [each for each in _columns(data) if any(_is_open(*item) for item in each.items())]
    for column in columns:
        numbers = {key: column[key] for key in ("lower", "upper") if isinstance(column.get(key), int | float)}
        lower = numbers.get("lower", numbers.get("upper", 1) - 1)
        stand_ins = {"lower": lower, "upper": numbers.get("upper", lower + 1), "categories": ["a", "b"]}
        column.update({key: stand_ins.get(key, "?") for key, value in column.items() if _is_open(key, value)})
    return keys | {str(column.get("name", "")) for column in columns}


def _is_open(key: str, value: Any) -> bool:
    """Whether a column's declaration is yet to be made; "?" may stand for a missing cell in its file."""
    return value in OPEN and not (key == "missing" and isinstance(value, list))


def _replace(tables: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """Replace or take out what is wrong at a place; return the name of the column, if it is one."""
    data = tables["data"]
    if location[:1] != ("data",):
        tables.pop("public", None)
        return ""
    if location[1:2] == ("columns",) and len(location) > 2 and isinstance(location[2], int):
        old = data["columns"][location[2]]
        old = old if isinstance(old, dict) else {}
        name = str(old.get("name") or f"column {location[2] + 1}")
        texts = "categories" in old or "levels" in old
        valid = {"categories": ["a", "b"]} if texts else {"lower": 0, "upper": 1}
        data["columns"][location[2]] = {"name": name, "source": "?", **valid}
        return name
    if location[1:2] == ("columns",):
        data["columns"] = list({str(each.get("name")): each for each in _columns(data)}.values())
    elif len(location) == 1:
        data.pop("user_id", None)
        data.pop("users", None)
    elif location[1] in _OF_TABLE:
        data[str(location[1])] = _OF_TABLE[str(location[1])]
    else:
        data.pop(str(location[1]), None)
    return ""


def _columns(data: dict[str, Any]) -> list[dict[str, Any]]:
    columns = data.get("columns")
    return [each for each in columns if isinstance(each, dict)] if isinstance(columns, list) else []


def without_open(value: Any) -> Any:
    """Return tables of guesses without those that are open."""
    if not isinstance(value, dict):
        return value
    return {key: without_open(each) for key, each in value.items() if each not in OPEN}
