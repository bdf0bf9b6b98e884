"""Base class of the parts of files that people write, and what is wrong in them, as pydantic tells it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from data.columns import Number as Number
from tasks.errors import require_once

T = TypeVar("T")
Whole = Annotated[int, Field(strict=True)]
Positive = Annotated[Number, Field(gt=0)]
_SHOWN = 60  # characters of a value that is wrong
_NO_NUMBER = ("float_type", "float_parsing", "int_type", "int_parsing", "int_from_float")


class Strict(BaseModel):
    """Base class of the parts of files that people write; it refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _name_allowed_keys(cls, plain: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(plain)
        except ValidationError as error:
            faults = [cls._with_keys(each) for each in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, faults) from None

    @classmethod
    def _with_keys(cls, fault: ErrorDetails) -> InitErrorDetails:
        """Return a fault; an unknown key of this part comes with those that are allowed."""
        kind: Any = fault["type"]
        context = fault.get("ctx", {})
        if kind == "extra_forbidden" and len(fault["loc"]) == 1:
            context = {"keys": ", ".join(cls.model_fields)}
        if "keys" in context:  # of this part, or of one below it
            kind = PydanticCustomError("extra_forbidden", "Unknown key; allowed are {keys}", context)
        return {"type": kind, "loc": fault["loc"], "input": fault["input"], "ctx": context}


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    require_once("each entry must occur once", values)
    return values


DISTINCT = AfterValidator(_each_once)  # of the entries of a tuple


def sentences(error: ValueError, undeclared: Iterable[str] = (), plain: Any = None) -> list[str]:
    """Return each fault of a file as pydantic tells it: the key, what is wrong, and the value that is there.

    With the ``plain`` content of the file, keys name columns and estimators in place of their numbers. Skip
    faults of ``undeclared`` keys and their tables. Another error is one fault.
    """
    if not isinstance(error, ValidationError):
        return [str(error)]
    faults = []
    for each in error.errors():
        where, got = ".".join(map(str, each["loc"])), each["input"]
        is_table = len(each["loc"]) < 2
        if any(is_below(where, key) or (not is_table and is_below(key, where)) for key in undeclared):
            continue
        message = each["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
        if each["type"] != "value_error" and isinstance(got, str | int | float | list):
            message += f", got {got!r}" if len(repr(got)) < _SHOWN else f", got {got!r:.{_SHOWN}}…"
        if each["type"] in _NO_NUMBER and isinstance(got, str):
            message += "; write it as 1234.5, without marks between thousands"
        faults.append(f"{_label(each['loc'], plain)}: {message}" if where else message)
    return faults


def _label(keys: Iterable[str | int], plain: Any) -> str:
    """Return a place in a file, with the name of an entry of a list in place of its number."""
    words = []
    for key in keys:
        try:
            plain = plain[key]
        except (KeyError, IndexError, TypeError):  # a missing key, or a key of pydantic's
            plain = None
        words.append(str(plain.get("name", key) if isinstance(key, int) and isinstance(plain, dict) else key))
    return ".".join(words)


def is_below(where: str, key: str) -> bool:
    """Whether a place in a file is that of a key, or below it."""
    return f"{where}.".startswith(f"{key}.")


def undeclared_keys(value: Any, where: str = "", label: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys of a file where "?" stands, and labels with the names of its columns and estimators.

    As what a missing cell is called, "?" is a value.
    """
    if value == "?":
        yield where, label
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        if key not in ("missing", "missing_codes") or not isinstance(each, list):
            name = each.get("name", key) if isinstance(value, list) and isinstance(each, dict) else key
            words = f"{where}.{key}", f"{label}.{name}"
            yield from undeclared_keys(each, *(text.removeprefix(".") for text in words))


def undeclared_fault(undeclared: Mapping[str, str]) -> list[str]:
    """Return the sentence, if any is due, about what its owner has yet to declare, by key and label."""
    return [f'replace "?" by a public value in: {", ".join(undeclared.values())}'] if undeclared else []
