"""Computed sentences: their words stand in ``reports/templates/sentences.jinja``, a macro each."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports import numbers


@cache
def macros() -> Any:
    """Return the template's macros, by name."""
    env = Environment(loader=PackageLoader("reports", "templates"), undefined=StrictUndefined)
    for name in ("num", "setting", "times", "words", "count", "span"):
        env.filters[name] = getattr(numbers, name)
    env.tests["finite"] = math.isfinite
    return env.get_template("sentences.jinja").module


def said(macro: str, **values: Any) -> str:
    """Return what a macro says of some values, as one line."""
    return " ".join(getattr(macros(), macro)(**values).split())
