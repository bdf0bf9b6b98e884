"""One file per dataset, found by being here.

Such a file holds ``DATASET``, a `data.dataset.Dataset`; ``PARSERS``, a dictionary from a source's layout to a
function that takes the raw file's path and returns a table with the dataset's column names (text or numbers,
in any order); and ``stand_in(n_rows, rng)``, which makes up a table of the same schema from public knowledge.
"""

import dataclasses
import importlib
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from data.dataset import Dataset
from data.errors import DataError


def load(name: str) -> ModuleType:
    """Return the module ``data.datasets.<name>``, or refuse one that is broken with all faults of its
    ``DATASET``.
    """
    module, file = f"{__name__}.{name}", f"data/datasets/{name}.py"
    try:
        return importlib.import_module(module)
    except ValidationError as error:
        faults = [f"{_place(one['loc'])}{one['msg']}" for one in error.errors()]
        raise DataError(f"{file} is left out: {'; '.join(faults)}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise DataError(f"dataset {name!r} has no parser; write {file}") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        raise DataError(f"{file} is left out: {type(error).__name__}: {error} (line {line})") from None


def _place(path: tuple[int | str, ...]) -> str:
    """Write where a fault lies: ``columns[1].dtype: ``; arguments of a dataset may be given by position."""
    if not path:
        return ""
    first, *rest = path
    names = [field.name for field in dataclasses.fields(Dataset)]
    begin = names[first] if isinstance(first, int) else first
    return begin + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in rest) + ": "


def parser(name: str, layout: str) -> Callable[..., Any]:
    """Return the function that reads a layout of a dataset."""
    parsers: dict[str, Callable[..., Any]] = load(name).PARSERS
    if layout not in parsers:
        raise DataError(f"data/datasets/{name}.py has no parser for layout {layout!r}; add it to PARSERS")
    return parsers[layout]
