"""Raw file → typed and checked table → Parquet, with its provenance inside.

Genotypes are `data.fetch.genotypes`' part, frames of a flock `data.fetch.frames`'.
"""

import hashlib
import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource, DataError
from data.fetch.frames import store_frames
from data.fetch.genotypes import store_genotypes
from data.fetch.raw_files import RawFile, set_aside
from data.formats.table import check_schema, describe, table_digest, typed
from data.registry import load_registry
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, read_json, sha256_file, store_dir
from data.store.references import DatasetRef, FramesRef, GenotypeRef, Repair, ref_from_dict
from data.store.shared import bring, name_below_home, read_shared, share

__all__ = [
    "DatasetRef",
    "FramesRef",
    "GenotypeRef",
    "ref_from_dict",
    "to_parquet",
]

STAND_IN_SEED = 1990

_log = logging.getLogger(__name__)


def to_parquet(
    dataset: Dataset, raw: RawFile, *, home: Path, stand_in_rows: int | None = None, again: bool = False
) -> DatasetRef:
    """Parse, check and store a dataset; reuse an intact table that the same code stored before.

    Parameters
    ----------
    dataset : Dataset
    raw : RawFile
        From `data.fetch.raw_files`; of origin ``"stand-in"`` a table is made up.
    home : pathlib.Path
        ``DPCOST_HOME``.
    stand_in_rows : int, optional
        Rows of a stand-in of kind ``"frames"``, instead of as many as were published.
    again : bool
        Make the table anew, even if a whole one is stored.

    Returns
    -------
    DatasetRef
        A `GenotypeRef` for a dataset of kind ``"genotypes"``, a `FramesRef` for one of kind ``"frames"``.

    Raises
    ------
    CorruptSource
        The content is not the published table: see `data.formats.table`, `data.fetch.genotypes`. Files of
        which no
        checksum could have told are moved out of the store, so that others are fetched next time.
    StoreError
        The store cannot be written.
    """
    fewer = dataset.kind == "frames" and raw.origin == "stand-in" and stand_in_rows is not None
    n_rows = min(stand_in_rows or dataset.n_rows, dataset.n_rows) if fewer else dataset.n_rows
    key = raw.sha256[:16] or ("stand-in" if n_rows == dataset.n_rows else f"stand-in-{n_rows}")
    code = _code_digest(dataset, [file.sha256 for file in raw.companions])[:8]
    path = store_dir(home) / "parquet" / f"{dataset.name}-{key}-{code}.parquet"
    if not again and (stored := stored_table(path)):
        return replace(stored, path=str(path), origin=raw.origin, reasons=raw.reasons)
    try:
        ref = _store(dataset, raw, path, n_rows)
    except CorruptSource as fault:
        if moved := set_aside(dataset, raw, home=home):
            raise CorruptSource(
                f"{fault}; what came was moved to {', '.join(map(str, moved))}: put the published file into "
                f"DPCOST_DATA_MIRROR and run `dpcost ingest {dataset.name} --again`"
            ) from None
        raise
    ref = replace(ref, sha256=sha256_file(path))
    keep_reference(ref)
    return ref


def _store(dataset: Dataset, raw: RawFile, path: Path, n_rows: int) -> DatasetRef:
    if dataset.kind == "genotypes":
        return store_genotypes(dataset, raw, path, np.random.default_rng(STAND_IN_SEED))
    if dataset.kind == "frames":
        return store_frames(dataset, raw, path, STAND_IN_SEED, n_rows)
    return _store_table(dataset, raw, path)


def _store_table(dataset: Dataset, raw: RawFile, path: Path) -> DatasetRef:
    table, rows_read, repairs = _stand_in(dataset) if raw.origin == "stand-in" else _parse(dataset, raw)
    if repairs:
        _log.warning("%s: %d rows dropped (%s)", dataset.name, rows_read - len(table), describe(repairs))
    ref = DatasetRef(
        name=dataset.name,
        path=str(path),
        sha256="",
        source_sha256=raw.sha256,
        source_url=raw.source_url,
        layout=raw.layout,
        origin=raw.origin,
        data_source="stand-in" if raw.origin == "stand-in" else "real",
        n_rows=len(table),
        rows_read=rows_read,
        repairs=repairs,
        reasons=raw.reasons,
    )
    arrow = pa.table({name: table[name].to_numpy() for name in table.columns})
    arrow = arrow.replace_schema_metadata(_metadata(ref, table))
    atomic_write(path, lambda handle: pq.write_table(arrow, handle))
    return ref


def _parse(dataset: Dataset, raw: RawFile) -> tuple[pd.DataFrame, int, tuple[Repair, ...]]:
    parsers = datasets.load(dataset.name).PARSERS
    if raw.layout not in parsers:
        raise DataError(
            f"data/datasets/{dataset.name}.py has no parser for layout {raw.layout!r}; add it to PARSERS"
        )
    frame = parsers[raw.layout](Path(raw.path))
    table, repairs = typed(frame, dataset)
    if len(frame) != dataset.n_rows:
        raise CorruptSource(
            f"{dataset.name}: the file has {len(frame):,} rows, {dataset.n_rows:,} were published; "
            "get the file again"
        )
    check_schema(table, dataset)
    if dataset.table_sha256 and table_digest(table) != dataset.table_sha256:
        dropped = f" after dropping rows ({describe(repairs)})" if repairs else ""
        raise CorruptSource(
            f"{dataset.name}: the table{dropped} is not the published one, its content digest differs; "
            "get the file again"
        )
    return table, len(frame), repairs


def _stand_in(dataset: Dataset) -> tuple[pd.DataFrame, int, tuple[Repair, ...]]:
    frame = datasets.load(dataset.name).stand_in(dataset.n_rows, np.random.default_rng(STAND_IN_SEED))
    table, repairs = typed(frame, dataset)
    check_schema(table, dataset)
    return table, len(frame), repairs


def _metadata(ref: DatasetRef, table: pd.DataFrame) -> dict[str, str]:
    """Return the metadata of the Parquet file, the same in every run."""
    return {
        "dpcost.dataset": ref.name,
        "dpcost.data_source": ref.data_source,
        "dpcost.source_sha256": ref.source_sha256,
        "dpcost.source_url": ref.source_url,
        "dpcost.layout": ref.layout,
        "dpcost.table_sha256": table_digest(table),
        "dpcost.rows_read": str(ref.rows_read),
        "dpcost.repairs": json.dumps([asdict(repair) for repair in ref.repairs]),
    }


def stale_tables(home: Path) -> list[Path]:
    """Return the stored tables, with their sidecar files, that the current code would write again."""
    stale, registry = [], load_registry()
    for path in (store_dir(home) / "parquet").glob("*.parquet"):
        try:
            ref = ref_from_dict(read_json(sidecar(path)))
            companions = list(ref.companion_sha256) if isinstance(ref, GenotypeRef) else []
            current = path.stem.endswith(_code_digest(registry[ref.name], companions)[:8])
        except (OSError, ValueError, KeyError, TypeError):
            current = False
        if not current:
            stale += [path, sidecar(path)]
    return stale


def _code_digest(dataset: Dataset, companions: list[str]) -> str:
    """Return a digest of the code and registry entry that determine the table, without the raw file."""
    facts: tuple[object, ...] = (
        dataset.columns,
        dataset.n_rows,
        dataset.table_sha256,
        dataset.n_snps,
        dataset.groups,
    )
    if dataset.kind == "frames":
        facts = (*facts, dataset.label, dataset.n_boids)
    digest = hashlib.sha256(repr((facts, companions)).encode())
    parser = datasets.load(dataset.name).__name__
    digest.update(code_digest([__name__, parser]).encode())
    return digest.hexdigest()


def sidecar(path: Path) -> Path:
    """Return the path of a stored table's reference."""
    return path.with_suffix(".json")


def keep_reference(ref: DatasetRef) -> None:
    """Write a table's reference next to it, and copy both to the shared store, if one is configured."""
    path = Path(ref.path)
    share(path)
    atomic_write(sidecar(path), json.dumps(ref.to_dict(), indent=1).encode())
    share(sidecar(path))


def stored_table(path: Path) -> DatasetRef | None:
    """Return the reference of a table stored here or in the shared store; None if none is intact."""
    try:
        if path.exists():
            ref = ref_from_dict(read_json(sidecar(path)))
            if sha256_file(path) == ref.sha256:
                return ref
            _log.warning("the stored table %s is damaged; it is built again", path)
        elif content := read_shared(name_below_home(sidecar(path))):
            ref = ref_from_dict(json.loads(content))
            if bring(path, ref.sha256):
                atomic_write(sidecar(path), content)
                return ref
    except (OSError, ValueError, KeyError, TypeError):
        _log.warning("the stored table %s is damaged; it is built again", path)
    return None
