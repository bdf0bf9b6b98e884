"""The registry of datasets: each is a file of `data.datasets`; a broken one is left out and named."""

import logging
import pkgutil

from data import datasets
from data.dataset import Dataset, nearest
from data.errors import DataError

_log = logging.getLogger(__name__)


def load_registry() -> dict[str, Dataset]:
    """Return all datasets by name; log a warning for each file that is broken, and leave it out."""
    found = {}
    for name in _names():
        try:
            found[name] = get_dataset(name)
        except DataError as error:
            _log.warning("%s", error)
    return found


def get_dataset(name: str) -> Dataset:
    """Return one dataset of the registry; refuse a broken file, and an unknown name with the nearest one."""
    if name not in _names():
        raise DataError(f"dataset {name!r} is not in the registry; {nearest(name, _names())}")
    module = datasets.load(name)
    dataset = getattr(module, "DATASET", None)
    faults = [f"it has no {part}" for part in ("PARSERS", "stand_in") if not hasattr(module, part)]
    if not isinstance(dataset, Dataset):
        faults.append("DATASET must be a data.dataset.Dataset")
    elif dataset.name != name:
        faults.append(f"name must be the file's, got {dataset.name!r}")
    elif not dataset.sources or dataset.n_rows < 1:
        faults.append("it needs at least one source, and n_rows of at least 1")
    if faults or not isinstance(dataset, Dataset):
        raise DataError(f"data/datasets/{name}.py is left out: {'; '.join(faults)}")
    return dataset


def _names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(datasets.__path__)))
