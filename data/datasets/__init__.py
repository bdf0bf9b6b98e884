"""The registry of datasets: one file each in this folder; a broken file is left out and named.

A file has ``DATASET``, a `data.dataset.Dataset`. ``PARSERS`` maps the layout of a source to a function that
takes the path of the raw file. The function returns a table with the column names of the dataset (text or
numbers, in any order). The tables of a collection (`data.collections`) are datasets too.
"""

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
from data.dataset import Dataset
from data.errors import DataError, known_names

_log = logging.getLogger(__name__)
_ADDED: dict[str, ModuleType] = {}  # plugin modules by the name of their dataset


def add_dataset(module: ModuleType) -> None:
    """Add a plugin dataset; refuse the name of an existing dataset."""
    name = module.DATASET.name
    if name in _names() and _ADDED.get(name) is not module:
        raise DataError(f"there is a dataset {name!r} already; rename it")
    _ADDED[name] = module


def load_registry() -> dict[str, Dataset]:
    """Return all datasets by name; leave out each broken file with a warning."""
    registry = {}
    for name in _names():
        try:
            registry[name] = get_dataset(name)
        except DataError as error:
            _log.warning("%s", error)
    return registry


def get_dataset(name: str) -> Dataset:
    """Return one dataset of the registry; refuse a broken file or an unknown name."""
    if name not in _files(*__path__) and name not in _names():
        raise DataError(f"dataset {name!r} is not in the registry{known_names(name, _names())}")
    module = load(name)
    dataset = getattr(module, "DATASET", None)
    if not isinstance(dataset, Dataset) or not hasattr(module, "PARSERS"):
        fault = "DATASET must be a data.dataset.Dataset, and PARSERS its parsers"
    elif dataset.name != name or dataset.n_rows < 1:
        fault = f"name must be the file's and n_rows at least 1, got {dataset.name!r} and {dataset.n_rows}"
    else:
        return dataset
    raise DataError(f"data/datasets/{name}.py is left out: {fault}")


def _names() -> tuple[str, ...]:
    return tuple(sorted({*_ADDED, *_files(*__path__), *collection_of()}))


@cache
def _files(*folders: str) -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(folders))


def load(name: str) -> ModuleType:
    """Return the module of a dataset; refuse a broken one with all faults of its ``DATASET``."""
    module, file = f"{__name__}.{name}", f"data/datasets/{name}.py"
    if name in _ADDED:
        return _ADDED[name]
    if name not in _files(*__path__) and (collection := collection_of().get(name)):
        return collection.load(name)  # type: ignore[no-any-return]
    try:
        return importlib.import_module(module)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise DataError(f"{file} is left out: {'; '.join(faults)}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise DataError(f"dataset {name!r} has no parser; write {file}") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        raise DataError(f"{file} is left out: {type(error).__name__}: {error} (line {line})") from None


def parser(name: str, layout: str) -> Callable[..., Any]:
    parsers: dict[str, Callable[..., Any]] = load(name).PARSERS
    if layout not in parsers:
        raise DataError(f"data/datasets/{name}.py has no parser for layout {layout!r}; add it to PARSERS")
    return parsers[layout]
