"""Collections: tables that belong together, each of which is a dataset.

A module here has ``tables()``, which returns the names of its datasets, ``load(name)``, which returns
one as a module with ``DATASET``, ``PARSERS`` and ``stand_in``, as a file of `data.datasets` has them, and
``problems(groups)``, which returns by dataset what a study's problem says of it, for parts of the tables.
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
    """Return the collection of each dataset that belongs to one, by the dataset's name."""
    return {name: collection for collection in collections().values() for name in collection.tables()}
