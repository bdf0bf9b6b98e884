"""Collections: groups of related tables; each table is a dataset.

A module here has three functions:

- ``tables()`` returns the names of its datasets;
- ``load(name)`` returns one dataset as a module with ``DATASET`` and ``PARSERS``, like a file of
  `data.datasets`;
- ``problems(groups)`` returns, for each dataset of some groups, the settings of a study's problem.
"""

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def collections() -> dict[str, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def collection_of() -> dict[str, ModuleType]:
    return {name: collection for collection in collections().values() for name in collection.tables()}
