"""Collections: tables of one layout, of which each is a dataset found by lying in a folder of the mirror.

A module here has ``tables()``, which returns the names of its datasets, and ``load(name)``, which returns
one as a module with ``DATASET``, ``PARSERS`` and ``stand_in``, as a file of `data.datasets` has them.
"""

import importlib
import pkgutil
from types import ModuleType


def collections() -> dict[str, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def collection_of() -> dict[str, ModuleType]:
    """Return the collection of each dataset that belongs to one, by the dataset's name."""
    return {name: collection for collection in collections().values() for name in collection.tables()}
