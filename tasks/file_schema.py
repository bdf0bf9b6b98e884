"""Base class of the parts of files that people write, and sentences about what is wrong in them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from data.store.folders import read_small
from tasks.errors import SpecError

T = TypeVar("T")
Keys = tuple[int | str, ...]  # that lead to an entry of a file: names in tables, places in lists
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]  # neither "0.5" nor true
Whole = Annotated[int, Field(strict=True)]
_SHOWN = 60  # characters of a value that is wrong


class Strict(BaseModel):
    """Base class of the parts of files that people write; it refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"each entry must be there once, got {value!r} twice; take one out")
    return values


DISTINCT = AfterValidator(_each_once)  # of the entries of a tuple


def read_strictly(path: Path, kind: type[T], what: str, limit: int = 100_000_000) -> T:
    """Read a JSON file that somebody else may have written; refuse one that is not of a kind."""
    try:
        content = read_small(path, limit)
        return TypeAdapter(kind).validate_json(content, strict=True)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except ValidationError as error:
        is_json = error.errors()[0]["type"] != "json_invalid"
        reason = sentences(error, from_json(content) if is_json else None)[0].strip()
    raise SpecError(f"{path} must be {what}; {reason}")


def sentences(error: ValidationError, content: Any) -> list[str]:
    """Return a sentence for each wrong entry of a file, which has some content as plain data."""
    return [
        field_fault(".".join(map(str, keys)), each)
        for keys, each in one_for_each_entry(error.errors(), content)
    ]


def one_for_each_entry(errors: Iterable[ErrorDetails], content: Any) -> list[tuple[Keys, ErrorDetails]]:
    """Return one error of pydantic for each wrong entry of a file's content, with the keys that lead there.

    An entry that may be of several types has errors for each of them; the deepest one is returned. A wrong
    name of a key is an error of the table that holds it.
    """
    by_entry: dict[Keys, ErrorDetails] = {}
    for error in errors:
        by_entry.setdefault(_keys(error, content), error)
    holding = {keys[:depth] for keys in by_entry for depth in range(len(keys))}  # a wrong entry
    return [
        (keys[:-1] if error["loc"][-1:] == ("[key]",) else keys, error)
        for keys, error in by_entry.items()
        if keys not in holding
    ]


def _keys(error: ErrorDetails, content: Any) -> Keys:
    """Return the keys that lead to an error, without the names of types that pydantic writes among them."""
    keys: list[int | str] = []
    for part in error["loc"]:
        is_key = isinstance(content, Mapping) and part in content
        if is_key or (isinstance(content, list | tuple) and part in range(len(content))):
            content = content[part]
            keys.append(part)
    return (*keys, error["loc"][-1]) if error["type"] == "missing" else tuple(keys)


def field_fault(where: str, error: ErrorDetails) -> str:
    """Describe a validation error of pydantic: the key, what is allowed there, and the value that it has."""
    kind, context, got = error["type"], error.get("ctx", {}), error["input"]
    if kind == "value_error":
        reason = error["msg"].removeprefix("Value error, ")
        return f"{where}: {reason}" if where else reason
    if kind == "missing":
        return f"{where} is missing; add it"
    if kind == "extra_forbidden":
        return f"{where} is not a known key"
    allowed = {
        "literal_error": f"must be {context.get('expected')}",
        "union_tag_invalid": f"must have kind {context.get('expected_tags')}",
        "greater_than_equal": f"must be at least {context.get('ge')}",
        "less_than_equal": f"must be at most {context.get('le')}",
        "too_short": "must have at least one entry",
        "float_type": "must be a number",
        "int_type": "must be a whole number",
        "string_type": "must be a text",
        "tuple_type": "must be a list",
        "dict_type": "must be a table of keys",
        "model_type": "must be a table of keys",
        "model_attributes_type": "must be a table of keys",
    }.get(kind) or error["msg"].replace("Input should", "must", 1)
    shown = f", got {got!r}" if isinstance(got, str | int | float | list) else ""
    shown = shown if len(shown) < _SHOWN else f"{shown[:_SHOWN]}…"
    return f"{where} {allowed}{shown}"
