"""The registry of datasets: one file each, found by being here; a broken one is left out and named.

Such a file holds ``DATASET``, a `data.dataset.Dataset`; ``PARSERS``, a dictionary from a source's layout to a
function that takes the raw file's path and returns a table with the dataset's column names (text or numbers,
in any order); and ``stand_in(n_rows, rng)``, which makes up a table of the same schema from public knowledge.
The tables of a collection (`data.collections`) are datasets, too.
"""

import dataclasses
import importlib
import logging
import pkgutil
import traceback
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from data.collections import collection_of
from data.dataset import Dataset, suggest_name
from data.errors import DataError

_log = logging.getLogger(__name__)
_ADDED: dict[str, ModuleType] = {}  # modules from outside, by the name of their dataset


def add_dataset(module: ModuleType) -> None:
    """Add a dataset from outside; refuse the name of one that is here."""
    name = module.DATASET.name
    if name in _names() and _ADDED.get(name) is not module:
        raise DataError(f"there is a dataset {name!r} already; rename it")
    _ADDED[name] = module


def load_registry() -> dict[str, Dataset]:
    """Return all datasets by name; log a warning for each file that is broken, and leave it out."""
    registry = {}
    for name in _names():
        try:
            registry[name] = get_dataset(name)
        except DataError as error:
            _log.warning("%s", error)
    return registry


def get_dataset(name: str) -> Dataset:
    """Return one dataset of the registry; refuse a broken file, and an unknown name with the nearest one."""
    if name not in _files(*__path__) and name not in _names():
        raise DataError(f"dataset {name!r} is not in the registry; {suggest_name(name, _names())}")
    module = load(name)
    dataset = getattr(module, "DATASET", None)
    faults = [f"it has no {part}" for part in ("PARSERS", "stand_in") if not hasattr(module, part)]
    if not isinstance(dataset, Dataset):
        faults.append("DATASET must be a data.dataset.Dataset")
    elif dataset.name != name:
        faults.append(f"name must be the file's, got {dataset.name!r}")
    elif dataset.n_rows < 1:
        faults.append("it needs n_rows of at least 1")
    if faults or not isinstance(dataset, Dataset):
        raise DataError(f"data/datasets/{name}.py is left out: {'; '.join(faults)}")
    return dataset


def _names() -> tuple[str, ...]:
    return tuple(sorted({*_ADDED, *_files(*__path__), *collection_of()}))


@cache
def _files(*folders: str) -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(folders))


def load(name: str) -> ModuleType:
    """Return the module of a dataset, or refuse one that is broken with all faults of its ``DATASET``."""
    module, file = f"{__name__}.{name}", f"data/datasets/{name}.py"
    if name in _ADDED:
        return _ADDED[name]
    if name not in _files(*__path__) and (collection := collection_of().get(name)):
        return collection.load(name)  # type: ignore[no-any-return]
    try:
        return importlib.import_module(module)
    except ValidationError as error:
        faults = [f"{_location(one['loc'])}{one['msg']}" for one in error.errors()]
        raise DataError(f"{file} is left out: {'; '.join(faults)}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise DataError(f"dataset {name!r} has no parser; write {file}") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        raise DataError(f"{file} is left out: {type(error).__name__}: {error} (line {line})") from None


def _location(path: tuple[int | str, ...]) -> str:
    """Write where a fault lies: ``columns[1].dtype: ``; arguments of a dataset may be given by position."""
    if not path:
        return ""
    first, *rest = path
    names = [field.name for field in dataclasses.fields(Dataset)]
    begin = names[first] if isinstance(first, int) else first
    return begin + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in rest) + ": "


def parser(name: str, layout: str) -> Callable[..., Any]:
    parsers: dict[str, Callable[..., Any]] = load(name).PARSERS
    if layout not in parsers:
        raise DataError(f"data/datasets/{name}.py has no parser for layout {layout!r}; add it to PARSERS")
    return parsers[layout]
