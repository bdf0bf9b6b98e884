"""One file per dataset, found by its name in the registry.

Such a file holds ``PARSERS``, a dictionary from a source's layout to a function that takes the raw
file's path and returns a table with the registry's column names (text or numbers, in any order), and
``stand_in(n_rows, rng)``, which makes up a table of the same schema from public knowledge alone.
"""

import importlib
from types import ModuleType

from data.errors import DataError


def load(name: str) -> ModuleType:
    """Return the module ``data.datasets.<name>``.

    Raises
    ------
    DataError
        There is no such file.
    """
    module = f"{__name__}.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise DataError(f"dataset {name!r} has no parser; write data/datasets/{name}.py") from None
