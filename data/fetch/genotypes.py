"""Genotypes in the store: one Parquet file per dataset, one row per SNP.

Columns: ``snp, chromosome, position, allele_1, allele_2``, ``missing`` (people without a call) and
``calls``, a fixed-size binary of one byte per person: how many copies of ``allele_1`` the person carries
(0, 1 or 2), or −1 where there is no call. A row group holds 1,024 SNPs, so that writing and reading need
memory for one block whatever the number of SNPs, and a few SNPs are read without the rest. The people
(id, label, group, number of missing calls) stand in the file's metadata: one file, one checksum.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource, DataError
from data.fetch.raw_files import RawFile
from data.formats.cohort import BLOCK_SNPS, MISSING, Calls, Cohort, SnpBlock
from data.formats.table import describe
from data.store.folders import atomic_write
from data.store.references import GenotypeRef, verified_path

NO_GROUP = -1
SNP_COLUMNS = ("snp", "chromosome", "position", "allele_1", "allele_2")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Calls in memory.

    Attributes
    ----------
    calls : (n_people, n_snps) array of int8
        Copies of ``allele_1``, or `MISSING`.
    people, labels : (n_people,) array of str
    group : (n_people,) array of int8
        0 or 1, or `NO_GROUP`.
    missing : (n_people,) array of int64
        Missing calls of each person among all SNPs of the dataset, read or not.
    n_snps_stored : int
        All SNPs of the dataset.
    group_names : tuple of str
    snps : (n_snps, 5) pandas.DataFrame
        The columns `SNP_COLUMNS`.
    """

    calls: Calls
    people: npt.NDArray[np.str_]
    labels: npt.NDArray[np.str_]
    group: npt.NDArray[np.int8]
    missing: npt.NDArray[np.int64]
    n_snps_stored: int
    group_names: tuple[str, ...]
    snps: pd.DataFrame


def store_genotypes(dataset: Dataset, raw: RawFile, path: Path, rng: np.random.Generator) -> GenotypeRef:
    """Parse, check and write a dataset's genotypes.

    Parameters
    ----------
    dataset : Dataset
        Of kind ``"genotypes"``.
    raw : RawFile
        From `data.fetch.raw_files`; of origin ``"stand-in"`` genotypes are simulated.
    path : pathlib.Path
        The Parquet file.
    rng : numpy.random.Generator
        For the simulation.

    Returns
    -------
    GenotypeRef
        Without the checksum of the Parquet file.

    Raises
    ------
    CorruptSource
        The files are damaged or do not belong together, a group is empty, or there are no calls.
    StoreError
        The store cannot be written.
    """
    cohort = _stand_in(dataset, rng) if raw.origin == "stand-in" else _parse(dataset, raw)
    if raw.origin != "stand-in" and cohort.people_read != dataset.n_rows:
        raise CorruptSource(
            f"{dataset.name}: the files hold {cohort.people_read:,} people, {dataset.n_rows:,} were "
            "published; get the files again"
        )
    group_of = {label: code for code, group in enumerate(dataset.groups) for label in group.labels}
    group = np.array([group_of.get(label, NO_GROUP) for label in cohort.labels], dtype=np.int8)
    sizes = tuple(int((group == code).sum()) for code in range(len(dataset.groups)))
    for size, one in zip(sizes, dataset.groups, strict=True):
        if not size:
            raise CorruptSource(
                f"{dataset.name}: nobody is in the group {one.name!r}, both groups need people; "
                "check the labels"
            )

    if cohort.repairs:
        left_out = cohort.people_read - len(cohort.people)
        _log.warning("%s: %d people left out (%s)", dataset.name, left_out, describe(cohort.repairs))
    facts: dict[str, Any] = {}
    atomic_write(path, lambda handle: facts.update(_write(handle, dataset, raw, cohort, group)))
    return GenotypeRef(
        name=dataset.name,
        path=str(path),
        sha256="",
        source_sha256=raw.sha256,
        source_url=raw.source_url,
        layout=raw.layout,
        origin=raw.origin,
        data_source="stand-in" if raw.origin == "stand-in" else "real",
        n_rows=len(cohort.people),
        rows_read=cohort.people_read,
        repairs=cohort.repairs,
        reasons=raw.reasons,
        n_snps=facts["n_snps"],
        group_names=tuple(one.name for one in dataset.groups),
        group_sizes=sizes,
        missing_calls=facts["missing_calls"],
        notes=cohort.notes,
        companion_sha256=tuple(file.sha256 for file in raw.companions),
    )


def read_genotypes(ref: GenotypeRef, snps: npt.NDArray[np.int64] | None = None) -> Genotypes:
    """Read stored genotypes, verified.

    Parameters
    ----------
    ref : GenotypeRef
    snps : (n_snps,) int array, optional
        Positions of the SNPs to read, in the order in which they are wanted; all by default.

    Returns
    -------
    Genotypes

    Raises
    ------
    CorruptTable
        The file is gone or its checksum is not the reference's.
    DataError
        A position is not between 0 and the number of SNPs.
    """
    if snps is not None and not np.all((snps >= 0) & (snps < ref.n_snps)):
        raise DataError(f"snps must be positions from 0 to {ref.n_snps - 1:,}; choose among those")
    with _opened(ref) as file:
        people = json.loads(file.metadata.metadata[b"dpcost.people"])
        if snps is None:
            blocks = [_block(file.read_row_group(i)) for i in range(file.num_row_groups)]
        else:
            blocks = []
            starts = np.cumsum(
                [0] + [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            )
            ordered = np.sort(snps)
            for i, (start, end) in enumerate(pairwise(starts)):
                if len(wanted := ordered[(ordered >= start) & (ordered < end)]):
                    blocks.append(_block(file.read_row_group(i).take(wanted - start)))
    if not blocks:
        raise DataError("snps must name at least one SNP; choose some")
    calls = np.concatenate([block.calls for block in blocks])
    table = pd.concat([block.snps for block in blocks], ignore_index=True)
    if snps is not None:
        place = np.argsort(np.argsort(snps, kind="stable"), kind="stable")
        calls, table = calls[place], table.iloc[place].reset_index(drop=True)
    return Genotypes(
        calls=calls.T,
        people=np.array(people["id"]),
        labels=np.array(people["label"]),
        group=np.array(people["group"], dtype=np.int8),
        missing=np.array(people["missing"], dtype=np.int64),
        n_snps_stored=ref.n_snps,
        group_names=ref.group_names,
        snps=table,
    )


def stream_blocks(ref: GenotypeRef) -> Iterator[SnpBlock]:
    """Read stored genotypes block by block, verified; errors as `read_genotypes`."""
    with _opened(ref) as file:
        for i in range(file.num_row_groups):
            yield _block(file.read_row_group(i))


def _parse(dataset: Dataset, raw: RawFile) -> Cohort:
    parsers = datasets.load(dataset.name).PARSERS
    if raw.layout not in parsers:
        raise DataError(
            f"data/datasets/{dataset.name}.py has no parser for layout {raw.layout!r}; add it to PARSERS"
        )
    cohort: Cohort = parsers[raw.layout](
        Path(raw.path), {file.layout: Path(file.path) for file in raw.companions}
    )
    return cohort


def _stand_in(dataset: Dataset, rng: np.random.Generator) -> Cohort:
    cohort: Cohort = datasets.load(dataset.name).stand_in(dataset.n_rows, rng)
    return cohort


def _write(
    handle: BinaryIO, dataset: Dataset, raw: RawFile, cohort: Cohort, group: npt.NDArray[np.int8]
) -> dict[str, Any]:
    """Write blocks as they arrive, and return the metadata that is complete only at the end."""
    n_people = len(cohort.people)
    schema = pa.schema(
        [
            ("snp", pa.string()), ("chromosome", pa.string()), ("position", pa.int64()),
            ("allele_1", pa.string()), ("allele_2", pa.string()), ("missing", pa.int32()),
            ("calls", pa.binary(n_people)),
        ]
    )  # fmt: skip
    missing = np.zeros(n_people, dtype=np.int64)
    n_snps, names = 0, set[str]()
    with pq.ParquetWriter(handle, schema, compression="zstd", use_dictionary=False) as writer:
        for block in _regular(cohort.blocks):
            absent = block.calls == MISSING
            missing += absent.sum(axis=0)
            columns = {name: block.snps[name] for name in SNP_COLUMNS}
            columns["missing"] = absent.sum(axis=1).astype(np.int32)
            arrays = [pa.array(columns[name], schema.field(name).type, from_pandas=True) for name in columns]
            payload = pa.py_buffer(np.ascontiguousarray(block.calls))
            calls = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(n_people), len(block.calls), [None, payload]
            )
            writer.write_table(pa.Table.from_arrays([*arrays, calls], schema=schema))
            names.update(block.snps["snp"])
            n_snps += len(block.calls)
        _check_snps(dataset, raw, n_snps, len(names))
        missing_calls = int(missing.sum())
        if missing_calls == n_snps * n_people:
            raise CorruptSource(
                f"{dataset.name}: every call of {n_people:,} people at {n_snps:,} SNPs is missing; "
                "get the files again"
            )
        people = {
            "id": list(cohort.people),
            "label": list(cohort.labels),
            "group": group.tolist(),
            "missing": missing.tolist(),
        }
        writer.add_key_value_metadata(
            {
                "dpcost.dataset": dataset.name,
                "dpcost.kind": dataset.kind,
                "dpcost.data_source": "stand-in" if raw.origin == "stand-in" else "real",
                "dpcost.source_sha256": raw.sha256,
                "dpcost.companion_sha256": json.dumps([file.sha256 for file in raw.companions]),
                "dpcost.source_url": raw.source_url,
                "dpcost.layout": raw.layout,
                "dpcost.rows_read": str(cohort.people_read),
                "dpcost.repairs": json.dumps([asdict(repair) for repair in cohort.repairs]),
                "dpcost.notes": json.dumps(cohort.notes),
                "dpcost.people": json.dumps(people),
            }
        )
    return {"n_snps": n_snps, "missing_calls": missing_calls}


def _check_snps(dataset: Dataset, raw: RawFile, n_snps: int, n_names: int) -> None:
    if not n_snps:
        raise CorruptSource(f"{dataset.name}: the files hold no SNP; get them again")
    if n_names < n_snps:
        raise CorruptSource(
            f"{dataset.name}: {n_snps - n_names:,} of {n_snps:,} SNPs have the name of another; mend the file"
        )
    if raw.origin != "stand-in" and dataset.n_snps and n_snps != dataset.n_snps:
        raise CorruptSource(
            f"{dataset.name}: the files hold {n_snps:,} SNPs, {dataset.n_snps:,} were published; "
            "get the files again"
        )


def _regular(blocks: Iterable[SnpBlock]) -> Iterator[SnpBlock]:
    """Cut blocks into pieces of at most `BLOCK_SNPS`, so that row groups are alike."""
    for block in blocks:
        for start in range(0, len(block.calls), BLOCK_SNPS):
            piece = slice(start, start + BLOCK_SNPS)
            yield SnpBlock(block.snps.iloc[piece], block.calls[piece])


def _opened(ref: GenotypeRef) -> pq.ParquetFile:
    return pq.ParquetFile(verified_path(ref))


def _block(table: pa.Table) -> SnpBlock:
    column = table["calls"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    width = column.type.byte_width
    payload = np.frombuffer(column.buffers()[1], dtype=np.int8)
    calls = payload[column.offset * width : (column.offset + len(column)) * width].reshape(-1, width)
    return SnpBlock(table.select(list(SNP_COLUMNS)).to_pandas(), calls)
