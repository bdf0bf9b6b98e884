"""The kinds of problems, by the names that study files use; a file that names a broken one is left out.

A file of ``sources``, or from outside, names its kinds in ``KINDS``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from inspect import isabstract
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import AfterValidator, Discriminator, Tag
from pydantic.errors import PydanticUserError

import dpalgos
from data.datasets import add_dataset
from data.errors import DataError
from dpalgos.plugins import PluginError, load_plugins, outside_plugins, report_broken_plugin
from tasks.problems.problem import Kind, Measure, RowSource


@cache
def kinds() -> Mapping[str, Kind]:
    ours = load_plugins("tasks.problems.sources").modules.items()
    files = {f"tasks/problems/sources/{name}.py": module for name, module in ours}
    files |= {str(module.__file__): module for module in outside_plugins().modules.values()}
    kinds_by_name: dict[str, Kind] = {}
    for file, module in files.items():
        try:
            if hasattr(module, "DATASET"):
                add_dataset(module)
            kinds_by_name |= _checked(getattr(module, "KINDS", {}), kinds_by_name)
        except DataError as error:
            report_broken_plugin(file, PluginError(str(error)))
        except Exception as error:
            report_broken_plugin(file, error)
    return kinds_by_name


def measure_of(problem: RowSource) -> Measure:
    kind = kinds()[problem.kind]
    return kind.intervals if problem.measure and kind.intervals else kind.measure


def modules_of(problem: RowSource, estimators: Iterable[str] = ()) -> list[str]:
    """Return the modules that decide a problem's numbers, and those of some estimators."""
    return [
        type(problem).__module__,
        measure_of(problem).measure.__module__,
        *problem.traits.modules,
        *(dpalgos.get_estimator(name).module for name in set(estimators)),
    ]


def _checked(named: Any, known: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """Return the kinds that a file names; raise PluginError for all that is wrong."""
    if not isinstance(named, Mapping) or not all(isinstance(each, Kind) for each in named.values()):
        raise PluginError(f"KINDS must be a dictionary of kinds by name, got {named!r}")
    faults = [f"kind must be a new name, got {name!r}; rename it" for name in named if name in known]
    for name, kind in named.items():
        if isabstract(kind.source):
            faults.append(f"{name!r} must define {', '.join(sorted(kind.source.__abstractmethods__))}")
        try:
            kind.source.model_rebuild()
        except (NameError, PydanticUserError) as error:
            faults.append(f"{name!r}: {error}")
    if faults:
        raise PluginError("; ".join(faults))
    return named


def _measures(problem: RowSource) -> RowSource:
    if problem.measure and kinds()[problem.kind].intervals is None:
        raise ValueError(f"measure must be left out for kind {problem.kind!r}, got {problem.measure!r}")
    return problem


def _kind_of(problem: Any) -> Any:
    kind = problem.get("kind") if isinstance(problem, dict) else getattr(problem, "kind", None)
    return None if kind is None else str(kind)


if TYPE_CHECKING:
    AnyProblem = RowSource
else:  # the type of a panel's problem in a study file: of the class that its ``kind`` names
    _TYPES = tuple(Annotated[kind.source, Tag(name)] for name, kind in kinds().items())
    AnyProblem = Annotated[Union[_TYPES], Discriminator(_kind_of), AfterValidator(_measures)]  # noqa: UP007
