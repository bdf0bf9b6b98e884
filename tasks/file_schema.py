"""Base class of the parts of files that people write, and sentences about what is wrong in them."""

import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from data.store.folders import read_small
from tasks.errors import SpecError

T = TypeVar("T")
# Where a value may be of several types, pydantic writes the type that it tried after the key.
_UNION_MEMBER = re.compile(r"\.(?:float|int|str|constrained-\w+)$|\.tuple\[[^\]]*\](?=\.|$)")
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
        return TypeAdapter(kind).validate_json(read_small(path, limit), strict=True)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except ValidationError as error:
        fault = error.errors()[0]
        reason = field_fault(".".join(map(str, fault["loc"])), fault).strip()
    raise SpecError(f"{path} must be {what}; {reason}")


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
    where = _UNION_MEMBER.sub("", where)
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
