"""The kinds of problems: each is a source of rows with a measure; one with a broken part is left out."""

from collections.abc import Iterator, Mapping
from functools import cache
from inspect import isabstract
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Field, create_model
from pydantic.errors import PydanticUserError

import tasks.problems.measures
import tasks.problems.sources
from data.datasets import add_dataset
from data.errors import DataError
from dpalgos.plugins import PluginError, load_plugins, outside_plugins, report_broken_plugin
from tasks.problems.problem import Problem, RowSource

Kinds = Mapping[str, type[Problem]]

# The names that study files use: source, measure, and settings whose default is another one.
KINDS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "simulation": ("SimulatedRows", "Estimation", {}),
    "local_regression": ("SimulatedRows", "Estimation", {"public_rows": 20_000}),
    "interval_simulation": ("SimulatedRows", "Intervals", {"estimates": "linear_regression"}),
    "interval_reports": (
        "SimulatedRows",
        "Intervals",
        {"public_rows": 20_000, "estimates": "linear_regression"},
    ),
    "user_simulation": ("GaussianUsers", "Estimation", {}),
    "interval_users": ("GaussianUsers", "Intervals", {}),
    "user_regression_simulation": ("UsersOfSigns", "Estimation", {}),
    "interval_user_regression": ("UsersOfSigns", "Intervals", {}),
    "user_selection": ("UsersWithCandidates", "Estimation", {}),
    "subsamples": ("TableSubsamples", "Estimation", {}),
    "interval_resamples": ("TableResamples", "Intervals", {}),
    "train_test_split": ("TableSplits", "Prediction", {}),
    "held_out_regression": ("TableSplits", "Estimation", {}),
    "cross_validation": ("TableFolds", "Prediction", {}),
    "grid_users": ("MapUsers", "Estimation", {}),
    "group_differences": ("GenotypeGroups", "Estimation", {}),
    "tracing": ("SimulatedCandidates", "Membership", {}),
    "group_tracing": ("GenotypeCandidates", "Membership", {}),
}


@cache
def kinds() -> Kinds:
    """Return the class of each kind of problem, by the name that study files use.

    A file of ``sources`` or ``measures``, or from outside, may name further ones in its own ``KINDS``.
    """
    outside = outside_plugins().modules
    for module in outside.values():
        if hasattr(module, "DATASET"):
            _add_dataset(module)
    files = {
        f"{package.__name__.replace('.', '/')}/{name}.py": module
        for package in (tasks.problems.sources, tasks.problems.measures)
        for name, module in load_plugins(package.__name__).modules.items()
    }
    files |= {str(module.__file__): module for module in outside.values()}
    parts: dict[str, type[RowSource]] = {}
    named: dict[str, Any] = {}
    for file, module in files.items():
        own = {each.__name__: each for each in _parts(module)}
        if known := sorted(own.keys() & parts.keys()):
            others = parts[known[0]].__module__
            report_broken_plugin(file, PluginError(f"class {known[0]} must have a new name: {others} has it"))
        else:
            parts |= own
            named[file] = getattr(module, "KINDS", {})
    classes = {
        kind: _composed(kind, parts[source], parts[measure], settings)
        for kind, (source, measure, settings) in KINDS.items()
        if source in parts and measure in parts
    }
    for file, own_kinds in named.items():
        try:
            classes |= _added(own_kinds, parts, classes)
        except Exception as error:
            report_broken_plugin(file, error)
    return classes


def _add_dataset(module: ModuleType) -> None:
    try:
        add_dataset(module)
    except DataError as error:
        report_broken_plugin(str(module.__file__), PluginError(str(error)))


def _parts(module: ModuleType) -> Iterator[type[RowSource]]:
    """Yield the sources and measures that a module defines."""
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, RowSource) and each.__module__ == module.__name__:
            yield each


def _added(named: Mapping[str, Any], parts: Mapping[str, type[RowSource]], known: Kinds) -> Kinds:
    """Return the classes of the kinds that a file names; raise PluginError for all that is wrong."""
    if not isinstance(named, Mapping):
        raise PluginError(f"KINDS must be a dictionary of kinds, got {named!r}")
    own: dict[str, type[Problem]] = {}
    faults = [f"kind must be a new name, got {kind!r}; rename it" for kind in named if kind in known]
    for kind, (source, measure, *settings) in named.items():
        if missing := [name for name in (source, measure) if name not in parts]:
            faults += [
                f"{kind!r} must be of classes in sources and measures, got {name!r}" for name in missing
            ]
        else:
            own[kind] = _composed(kind, parts[source], parts[measure], *settings)
    for kind, problem in own.items():
        if isabstract(problem):
            faults.append(f"{kind!r} must define {', '.join(sorted(problem.__abstractmethods__))}")
        try:
            problem.model_rebuild()
        except (NameError, PydanticUserError) as error:
            faults.append(f"{kind!r}: {error}")
    if faults:
        raise PluginError("; ".join(faults))
    return own


def _composed(
    kind: str,
    source: type[RowSource],
    measure: type[RowSource],
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> type[Problem]:
    """Return the class of a source with a measure, in which some settings have another default."""
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, default in settings.items():
        field = source.model_fields[name]
        fields[name] = (Annotated[(field.annotation, *field.metadata, Field())], default)
    composed: type[Any] = create_model(kind, __base__=(measure, source), __module__=__name__, **fields)
    return composed


def __getattr__(name: str) -> type[Problem]:
    """Return the class of a kind, which is how pickle finds it on a worker."""
    try:
        return kinds()[name]
    except KeyError:
        raise AttributeError(name) from None


if TYPE_CHECKING:
    AnyKind = Problem
else:  # the type of a panel's problem in a study file: whichever class its ``kind`` names
    AnyKind = Annotated[Union[tuple(kinds().values())], Field(discriminator="kind")]  # noqa: UP007
