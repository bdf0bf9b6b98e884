"""Keywords of an estimator: frozen dataclasses whose fields declare the allowed values.

A field is declared with one of the helpers below. The base class checks every field once, on construction.
Therefore an estimator can trust its parameters.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.release.checks import check_bound, check_for_columns, check_how_many, check_probability

Check = Callable[[str, Any], Any]
_MOST = 1_000_000  # the maximum number of rounds, rows or columns of a keyword
_NOTHING: Mapping[str, float] = MappingProxyType({})

# The caller of an estimator sets these; a configuration of its settings must not.
_OF_THE_RUN = ("epsilon", "delta", "calibration", "rng", "replicates", "row_mask")


def positive(doc: str, *, default: Any = MISSING, optional: bool = False) -> Any:
    """Declare a positive number of a sensible size; ``optional``, or a default of None, also allows None."""
    return checked(doc, check_bound, default=default, optional=optional or default is None)


def count(doc: str, *, default: Any = MISSING) -> Any:
    """Declare a whole number from 1 to a million; a default of None also allows None."""
    return checked(doc, partial(check_how_many, most=_MOST), default=default, optional=default is None)


def choice(doc: str, options: tuple[Any, ...], *, default: Any = MISSING) -> Any:
    """Declare one of a few values."""

    def check(name: str, value: Any) -> Any:
        if np.ndim(value) or not any(value is option or value == option for option in options):
            allowed = ", ".join(repr(option) for option in options)
            raise InputError(f"{name} must be one of {allowed}, got {shown(value)}")
        return value

    return checked(doc, check, default=default)


def checked(doc: str, check: Check, *, default: Any = MISSING, optional: bool = False) -> Any:
    """Declare a field whose ``check(name, value)`` returns the clean value; ``optional`` also allows None."""

    def check_or_none(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    metadata = {
        "doc": doc,
        "check": check_or_none if optional else check,
        "per_column": check is check_for_columns,
    }
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def interval_level() -> Any:
    """Declare the keyword ``interval``."""
    what = "confidence level of an interval per coordinate, e.g. 0.95; None: none"
    return checked(what, check_probability, default=None, optional=True)


def check_settings(where: str, settings: Mapping[str, Any], instead: str) -> None:
    """Refuse settings from a file that would override decisions of the run, such as its budget.

    For the message, ``where`` is the name of their table, and ``instead`` says how to set those keywords.
    """
    for name in _OF_THE_RUN:
        if name in settings:
            raise InputError(f"{where}.{name} must be left out, got {settings[name]!r}; {instead}")


def describe_keywords(estimator: type[Any]) -> list[dict[str, Any]]:
    """Return name, documentation and default of each keyword, for catalogs."""
    return [
        {
            "name": item.name,
            "doc": item.metadata.get("doc", ""),
            "required": item.default is MISSING,
            **({} if item.default is MISSING else {"default": item.default}),
        }
        for item in dataclasses.fields(estimator)
    ]
