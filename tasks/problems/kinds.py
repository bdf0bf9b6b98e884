"""The kinds of problems there are: every class with a ``kind`` in a module of this package."""

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Annotated, Union, get_args

from pydantic import Field

import tasks.problems
from tasks.problems.problem import Problem


@cache
def kinds() -> dict[str, type[Problem]]:
    """Return the class of each kind of problem, by the name that study files use."""
    found: dict[str, type[Problem]] = {}
    for module in sorted(pkgutil.iter_modules(tasks.problems.__path__), key=lambda module: module.name):
        for each in vars(importlib.import_module(f"tasks.problems.{module.name}")).values():
            if isinstance(each, type) and issubclass(each, Problem) and each is not Problem:
                for kind in get_args(each.model_fields["kind"].annotation):
                    found[kind] = each
    return found


if TYPE_CHECKING:
    AnyKind = Problem
else:  # the type of a panel's problem in a study file: whichever class its ``kind`` names
    AnyKind = Annotated[Union[tuple(kinds().values())], Field(discriminator="kind")]  # noqa: UP007
