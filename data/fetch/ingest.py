"""Conversion of a raw file to a Parquet table in the store with its provenance."""

import hashlib
import json
import logging
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource, DamagedFile
from data.fetch.frames import store_frames
from data.fetch.genotypes import store_genotypes
from data.fetch.raw import RawFile
from data.fetch.tables import store_table
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, read_json, sha256_file, store_dir
from data.store.references import LEFT_OUT, DatasetRef, GenotypeRef, describe_repairs, ref_from_dict
from data.store.shared import copy_shared, name_below_home, read_shared, share

STAND_IN_SEED = 1990
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)

_log = logging.getLogger(__name__)


def to_parquet(
    dataset: Dataset,
    raw: RawFile,
    *,
    home: Path,
    stand_in_rows: int | None = None,
    again: bool = False,
) -> DatasetRef:
    """Parse, check and store a dataset; reuse an intact table that the same code stored before.

    ``stand_in_rows`` is the number of rows of a stand-in of frames.
    ``again`` builds the table again. A download that is whole, and yet not the expected table, stays in the
    store: a retry does not download it again. A damaged file and a copy from the mirror are deleted; the next
    call then fetches another one.
    """
    if not again and (stored := stored_before(dataset, raw, home=home, stand_in_rows=stand_in_rows)):
        return stored
    if raw.is_stand_in and not dataset.stand_in:
        raise raw.absence()
    path, n_rows = _path_and_rows(dataset, raw, home, stand_in_rows)
    try:
        if dataset.kind == "frames":
            ref: DatasetRef = store_frames(dataset, raw, path, STAND_IN_SEED, n_rows)
        else:
            ref = (store_genotypes if dataset.kind == "genotypes" else store_table)(dataset, raw, path)
    except CorruptSource as fault:
        unchecked = [file.file for file in dataset.source.files if not file.sha256]
        if raw.is_stand_in or not unchecked:
            raise
        if isinstance(fault, DamagedFile) or raw.origin == "mirror":
            for file in unchecked:
                (store_dir(home) / "raw" / file).unlink(missing_ok=True)
            raise
        raise CorruptSource(
            f"{fault}; the download is kept, and `dpcost ingest {dataset.name} --again` fetches another one"
        ) from None
    if dropped := [each for each in ref.repairs if each.done == LEFT_OUT]:
        what = "people left out" if isinstance(ref, GenotypeRef) else "rows dropped"
        n_dropped = ref.rows_read - ref.n_rows
        _log.warning("%s: %d %s (%s)", ref.name, n_dropped, what, describe_repairs(dropped))
    ref = replace(ref, sha256=sha256_file(path))
    keep_reference(ref)
    return ref


def stored_before(
    dataset: Dataset, raw: RawFile, *, home: Path, stand_in_rows: int | None = None
) -> DatasetRef | None:
    """Return the intact table that the same code stored before, or None."""
    path, _ = _path_and_rows(dataset, raw, home, stand_in_rows)
    stored = stored_table(path)
    return stored and replace(stored, path=str(path), origin=raw.origin, reasons=raw.reasons)


def _path_and_rows(dataset: Dataset, raw: RawFile, home: Path, stand_in_rows: int | None) -> tuple[Path, int]:
    """Return a table's file, named by its contents and code, and its expected number of rows."""
    n_rows = min(stand_in_rows or dataset.n_rows, dataset.n_rows) if raw.is_stand_in else dataset.n_rows
    key = raw.sha256[:16] or ("stand-in" if n_rows == dataset.n_rows else f"stand-in-{n_rows}")
    code = _digest_of_code_and_entry(dataset, [file.sha256 for file in raw.companions])[:8]
    return store_dir(home) / "parquet" / f"{dataset.name}-{key}-{code}.parquet", n_rows


def _digest_of_code_and_entry(dataset: Dataset, companions: list[str]) -> str:
    """Return a digest of the code and the registry entry that determine the table, without the raw file."""
    names = ("columns", "n_rows", "table_sha256", "n_snps", "groups", "label", "n_boids", "stand_in")
    facts = [getattr(dataset, name) for name in names]
    digest = hashlib.sha256(repr((facts, companions)).encode())
    parser = datasets.load(dataset.name).__name__
    digest.update(code_digest([__name__, parser]).encode())
    return digest.hexdigest()


def sidecar(path: Path) -> Path:
    return path.with_suffix(".json")


def keep_reference(ref: DatasetRef) -> None:
    """Write a table's reference next to it, and copy both to the shared store, if one is configured."""
    path = Path(ref.path)
    share(path)
    atomic_write(sidecar(path), json.dumps(ref.to_dict(), indent=1).encode())
    share(sidecar(path))


def stored_table(path: Path) -> DatasetRef | None:
    """Return the reference of a table stored here or in the shared store; None if none is intact."""
    if path.exists():
        with suppress(*_UNREADABLE):
            ref = ref_from_dict(read_json(sidecar(path)))
            if sha256_file(path) == ref.sha256:
                os.utime(path)  # how long it was not used says whether it is stale
                return ref
        _log.warning("the stored table %s is damaged and will be rebuilt", path)
    with suppress(*_UNREADABLE):
        if content := read_shared(name_below_home(sidecar(path))):
            ref = ref_from_dict(json.loads(content))
            if copy_shared(path, ref.sha256):
                atomic_write(sidecar(path), content)
                return ref
    return None
