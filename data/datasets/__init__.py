"""One file per dataset, found by being here.

Such a file holds ``DATASET``, a `data.dataset.Dataset`; ``PARSERS``, a dictionary from a source's layout to a
function that takes the raw file's path and returns a table with the dataset's column names (text or numbers,
in any order); and ``stand_in(n_rows, rng)``, which makes up a table of the same schema from public knowledge.
"""

import importlib
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from data.errors import DataError


def load(name: str) -> ModuleType:
    """Return the module ``data.datasets.<name>``, or refuse one that is broken with all faults of its
    ``DATASET``.
    """
    module, file = f"{__name__}.{name}", f"data/datasets/{name}.py"
    try:
        return importlib.import_module(module)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}".lstrip(": ") for one in error.errors()]
        raise DataError(f"{file} is left out: {error.title}: {'; '.join(faults)}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise DataError(f"dataset {name!r} has no parser; write {file}") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        raise DataError(f"{file} is left out: {type(error).__name__}: {error} (line {line})") from None


def parser(name: str, layout: str) -> Callable[..., Any]:
    """Return the function that reads a layout of a dataset."""
    parsers: dict[str, Callable[..., Any]] = load(name).PARSERS
    if layout not in parsers:
        raise DataError(f"data/datasets/{name}.py has no parser for layout {layout!r}; add it to PARSERS")
    return parsers[layout]
