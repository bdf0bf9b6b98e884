"""Collections: groups of related tables; each table is a dataset.

A module here has three functions:

- ``tables()`` returns the names of its datasets;
- ``load(name)`` returns the `module_of` one dataset, like a file of `data.datasets`;
- ``problems(groups)`` returns, for each dataset of some groups, the settings of a study's problem.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from data.dataset import Dataset


def module_of(dataset: Dataset, parse: Callable[[Path], Any]) -> ModuleType:
    """Return a module with ``DATASET`` and ``PARSERS``: one function, which reads the raw file."""
    module = ModuleType(parse.__module__)
    vars(module).update(DATASET=dataset, PARSERS={dataset.source.layout: parse})
    return module


@cache
def collections() -> dict[str, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def collection_of() -> dict[str, ModuleType]:
    return {name: collection for collection in collections().values() for name in collection.tables()}
