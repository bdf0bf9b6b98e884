"""Genotypes in the store: one Parquet file per dataset, one row per SNP.

The columns are ``snp, chromosome, position, allele_1, allele_2``, ``missing`` (people without a call) and
``calls``. ``calls`` is a fixed-size binary with one byte per person: the copies of ``allele_1`` (0, 1 or 2),
or −1 if there is no call. A row group has 1,024 SNPs. Writing and reading need memory for one block only, and
a few SNPs can be read without the rest. The people (id, label, group, number of missing calls) are in the
metadata of the file: one file, one checksum.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource, DataError
from data.fetch.raw import RawFile
from data.formats.cohort import MISSING, Calls, Cohort, SnpBlock
from data.store.folders import atomic_file
from data.store.references import GenotypeRef, Repair, verified_path

NO_GROUP = -1
_MAX_MISSING = 0.1  # share of missing calls of a person or a SNP; PLINK's default of --mind and --geno
_SNP_FIELDS = [
    ("snp", pa.string()), ("chromosome", pa.string()), ("position", pa.int64()),
    ("allele_1", pa.string()), ("allele_2", pa.string()),
]  # fmt: skip
SNP_COLUMNS = tuple(name for name, _ in _SNP_FIELDS)


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Calls in memory, at all SNPs or at some."""

    calls: Calls  # (n_people, n_snps): copies of allele_1, or MISSING
    group: npt.NDArray[np.int8]  # (n_people,): 0 or 1, or NO_GROUP
    missing: npt.NDArray[np.int64]  # missing calls of each person among all SNPs of the dataset
    n_snps_stored: int  # all SNPs of the dataset
    group_names: tuple[str, ...]
    labels: tuple[str, ...]  # of people, such as their population
    snps: pd.DataFrame  # (n_snps, 5), of the columns SNP_COLUMNS


def store_genotypes(dataset: Dataset, raw: RawFile, path: Path, rng: np.random.Generator) -> GenotypeRef:
    """Parse or simulate a dataset's genotypes; check and write them."""
    cohort: Cohort
    if raw.is_stand_in:
        cohort = datasets.load(dataset.name).stand_in(dataset.n_rows, rng)
    else:
        companions = {file.layout: Path(file.path) for file in raw.companions}
        cohort = datasets.parser(dataset.name, raw.layout)(Path(raw.path), companions)
        if cohort.people_read != dataset.n_rows:
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
    n_people = len(cohort.people)
    missing, names, n_snps = np.zeros(n_people, dtype=np.int64), set[str](), 0
    schema = pa.schema([*_SNP_FIELDS, ("missing", pa.int32()), ("calls", pa.binary(n_people))])
    with (
        atomic_file(path) as handle,
        pq.ParquetWriter(handle, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        for block in cohort.blocks:
            absent = block.calls == MISSING
            writer.write_table(_arrow(block, absent, schema))
            missing += absent.sum(axis=0)
            names.update(block.snps["snp"])
            n_snps += len(block.calls)
        _check_snps(dataset, n_snps, len(names), published=0 if raw.is_stand_in else dataset.n_snps)
        if missing.sum() == n_snps * n_people:
            raise CorruptSource(
                f"{dataset.name}: every call of {n_people:,} people at {n_snps:,} SNPs is missing; "
                "get the files again"
            )
        few_calls = int(((group != NO_GROUP) & ~has_enough_calls(missing, n_snps)).sum())
        left_out = Repair(
            f"more than {_MAX_MISSING:.0%} of the calls missing",
            few_calls,
            "person",
            "left out where groups are compared",
        )
        ref = GenotypeRef(
            **raw.provenance(path),
            n_rows=n_people,
            rows_read=cohort.people_read,
            repairs=(*cohort.repairs, *([left_out] if few_calls else [])),
            n_snps=n_snps,
            group_names=tuple(one.name for one in dataset.groups),
            group_sizes=sizes,
            missing_calls=int(missing.sum()),
            companion_sha256=tuple(file.sha256 for file in raw.companions),
        )
        people = {
            "id": cohort.people,
            "label": cohort.labels,
            "group": group.tolist(),
            "missing": missing.tolist(),
        }
        more = {"companion_sha256": ref.companion_sha256, "people": people}
        writer.add_key_value_metadata(ref.metadata(**more))
    return ref


def has_enough_calls(
    missing: npt.NDArray[np.int64], n_calls: int | npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return a mask of people or SNPs with ``n_calls`` calls that lack at most a tenth of them."""
    return np.asarray(missing <= _MAX_MISSING * n_calls)


def read_genotypes(ref: GenotypeRef, snps: npt.NDArray[np.int64] | None = None) -> Genotypes:
    """Read and verify stored genotypes at SNPs with ascending positions; default: all."""
    snps = np.arange(ref.n_snps) if snps is None else snps
    if not len(snps):
        raise DataError("snps must contain at least one SNP; add some")
    if snps[0] < 0 or snps[-1] >= ref.n_snps or (np.diff(snps) < 1).any():
        raise DataError(f"snps must be ascending positions from 0 to {ref.n_snps - 1:,}; choose from these")
    blocks = []
    with pq.ParquetFile(verified_path(ref)) as file:
        people = json.loads(file.metadata.metadata[b"dpcost.people"])
        start = 0
        for i in range(file.num_row_groups):
            end = start + file.metadata.row_group(i).num_rows
            if len(chosen := snps[(snps >= start) & (snps < end)]):
                blocks.append(_block(file.read_row_group(i).take(chosen - start)))
            start = end
    return Genotypes(
        calls=np.concatenate([block.calls for block in blocks]).T,
        group=np.array(people["group"], dtype=np.int8),
        missing=np.array(people["missing"], dtype=np.int64),
        n_snps_stored=ref.n_snps,
        group_names=ref.group_names,
        labels=tuple(people["label"]),
        snps=pd.concat([block.snps for block in blocks], ignore_index=True),
    )


def stream_blocks(ref: GenotypeRef) -> Iterator[SnpBlock]:
    """Read and verify stored genotypes block by block; errors as in `read_genotypes`."""
    with pq.ParquetFile(verified_path(ref)) as file:
        for i in range(file.num_row_groups):
            yield _block(file.read_row_group(i))


def _arrow(block: SnpBlock, absent: npt.NDArray[np.bool_], schema: pa.Schema) -> pa.Table:
    columns = {**block.snps[list(SNP_COLUMNS)], "missing": absent.sum(axis=1).astype(np.int32)}
    arrays = [pa.array(columns[name], schema.field(name).type, from_pandas=True) for name in columns]
    payload = pa.py_buffer(np.ascontiguousarray(block.calls))
    kind = schema.field("calls").type
    calls = pa.FixedSizeBinaryArray.from_buffers(kind, len(block.calls), [None, payload])
    return pa.Table.from_arrays([*arrays, calls], schema=schema)


def _check_snps(dataset: Dataset, n_snps: int, n_names: int, *, published: int) -> None:
    if not n_snps:
        raise CorruptSource(f"{dataset.name}: the files have no SNP; get them again")
    if n_names < n_snps:
        raise CorruptSource(
            f"{dataset.name}: {n_snps - n_names:,} of {n_snps:,} SNPs share a name with another; correct it"
        )
    if published and n_snps != published:
        raise CorruptSource(
            f"{dataset.name}: the files hold {n_snps:,} SNPs, {published:,} were published; "
            "get the files again"
        )


def _block(table: pa.Table) -> SnpBlock:
    column = table["calls"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    width = column.type.byte_width
    payload = np.frombuffer(column.buffers()[1], dtype=np.int8)
    calls = payload[column.offset * width : (column.offset + len(column)) * width].reshape(-1, width)
    return SnpBlock(table.select(list(SNP_COLUMNS)).to_pandas(), calls)
