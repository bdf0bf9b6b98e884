"""The kinds of problems: each class here with a ``kind``; a module with a broken one is left out."""

from collections.abc import Iterator, Mapping
from functools import cache
from inspect import isabstract
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Union, get_args

from pydantic import Field
from pydantic.errors import PydanticUserError

import tasks.problems
from data.datasets import add_dataset
from data.errors import DataError
from dpalgos.plugins import PluginError, left_out, load_plugins, outside_plugins
from tasks.problems.problem import Problem

Kinds = Mapping[str, type[Problem]]


@cache
def kinds() -> Kinds:
    """Return the class of each kind of problem, by the name that study files use."""
    classes: dict[str, type[Problem]] = {}
    outside = outside_plugins().modules
    for module in outside.values():
        if hasattr(module, "DATASET"):
            _add_dataset(module)
    for name, module in {**load_plugins(tasks.problems.__name__).modules, **outside}.items():
        of_module = {kind: each for each in _problems(module) for kind in _named(each)}
        if faults := [fault for kind, each in of_module.items() for fault in _faults(kind, each, classes)]:
            left_out(
                str(module.__file__) if name in outside else f"tasks/problems/{name}.py",
                PluginError("; ".join(faults)),
            )
        else:
            classes |= of_module
    return classes


def _add_dataset(module: ModuleType) -> None:
    try:
        add_dataset(module)
    except DataError as error:
        left_out(str(module.__file__), PluginError(str(error)))


def _problems(module: ModuleType) -> Iterator[type[Problem]]:
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, Problem) and each.__module__ == module.__name__:
            yield each


def _named(problem: type[Problem]) -> tuple[str, ...]:
    return get_args(problem.model_fields["kind"].annotation)


def _faults(kind: str, problem: type[Problem], known: Kinds) -> Iterator[str]:
    if "kind" not in vars(problem).get("__annotations__", {}):
        yield f"{problem.__name__} must have a kind of its own, not {kind!r}, that of the class it extends"
    elif kind in known:
        yield f"kind must be a new name, got {kind!r}, that of {known[kind].__module__}; rename one of them"
    if isabstract(problem):
        yield f"{problem.__name__} must define {', '.join(sorted(problem.__abstractmethods__))}"
    try:
        problem.model_rebuild()
    except (NameError, PydanticUserError) as error:
        yield f"{problem.__name__}: {error}"


if TYPE_CHECKING:
    AnyKind = Problem
else:  # the type of a panel's problem in a study file: whichever class its ``kind`` names
    AnyKind = Annotated[Union[tuple(kinds().values())], Field(discriminator="kind")]  # noqa: UP007
