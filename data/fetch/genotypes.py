"""Genotypes in the store: one Parquet file per dataset, one row per SNP.

The columns are ``snp, chromosome, position, allele_1, allele_2`` and ``calls``. ``calls`` is a fixed-size
binary with one byte per person: the copies of ``allele_1`` (0, 1 or 2), or −1 if there is no call. The people
(id, label, group, number of missing calls) are in the metadata of the file: one file, one checksum.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource
from data.fetch.raw import RawFile
from data.fetch.tables import require_few_dropped, require_published
from data.formats.cohort import MISSING, Calls, Cohort
from data.store.folders import atomic_file
from data.store.references import LEFT_OUT, GenotypeRef, Repair, verified_path

if TYPE_CHECKING:
    import pandas as pd

NO_GROUP = -1
PEOPLE = b"dpcost.people"  # in the metadata of a file
_ROW_GROUP = 1 << 15  # SNPs that are in memory together
_MAX_MISSING = 0.1  # share of missing calls of a person or a SNP; PLINK's default of --mind and --geno
_SNP_FIELDS = [
    ("snp", pa.string()), ("chromosome", pa.string()), ("position", pa.int64()),
    ("allele_1", pa.string()), ("allele_2", pa.string()),
]  # fmt: skip
SNP_COLUMNS = [name for name, _ in _SNP_FIELDS]


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Calls of people, at all SNPs of a dataset or at some."""

    calls: Calls  # (n_people, n_snps): copies of allele_1, or MISSING
    group: npt.NDArray[np.int8]  # (n_people,): 0 or 1, or NO_GROUP
    missing: npt.NDArray[np.int64]  # missing calls of each person among all SNPs of the dataset
    n_snps_stored: int  # all SNPs of the dataset
    group_names: tuple[str, ...]
    labels: tuple[str, ...]  # of people, such as their population
    snps: "pd.DataFrame"  # (n_snps, 5), of the columns SNP_COLUMNS

    def at(self, snps: npt.NDArray[np.int64]) -> "Genotypes":
        """Return the genotypes at some SNPs, by their positions in the file."""
        return replace(self, calls=self.calls[:, snps], snps=self.snps.iloc[snps].reset_index(drop=True))


def store_genotypes(dataset: Dataset, raw: RawFile, path: Path) -> GenotypeRef:
    companions = {file.layout: Path(file.path) for file in raw.companions}
    cohort: Cohort = datasets.parser(dataset.name, raw.layout)(Path(raw.path), companions)
    require_published(dataset.name, "people", cohort.people_read, dataset.n_rows)
    left_out = [each for each in cohort.repairs if each.done == LEFT_OUT]
    require_few_dropped(dataset.name, "people", left_out, cohort.people_read)
    group_of = {label: code for code, group in enumerate(dataset.groups) for label in group.labels}
    group = np.array([group_of.get(label, NO_GROUP) for label in cohort.labels], dtype=np.int8)
    sizes = tuple(int((group == code).sum()) for code in range(len(dataset.groups)))
    for size, one in zip(sizes, dataset.groups, strict=True):
        if not size:
            raise CorruptSource(
                f"{dataset.name}: nobody is in the group {one.name!r}, both groups need people; "
                "check the labels"
            )
    n_snps, n_people = cohort.calls.shape
    missing = _missing_calls(cohort.calls)
    require_published(dataset.name, "SNPs", n_snps, dataset.n_snps)
    if shared := n_snps - cohort.snps["snp"].nunique():
        raise CorruptSource(
            f"{dataset.name}: {shared:,} of {n_snps:,} SNPs share a name with another; correct it"
        )
    if missing.sum() == cohort.calls.size:
        raise CorruptSource(
            f"{dataset.name}: no SNP has a call, of {n_people:,} people at {n_snps:,} SNPs; all are missing; "
            "get the files again"
        )
    few_calls = int(((group != NO_GROUP) & ~has_enough_calls(missing, n_snps)).sum())
    reason = f"more than {_MAX_MISSING:.0%} of the calls missing"
    not_compared = Repair(reason, few_calls, "person", "left out where groups are compared")
    ref = GenotypeRef(
        **raw.provenance(path),
        n_rows=n_people,
        rows_read=cohort.people_read,
        repairs=(*cohort.repairs, *([not_compared] if few_calls else [])),
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
    calls = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(n_people), n_snps, [None, pa.py_buffer(np.ascontiguousarray(cohort.calls))]
    )
    columns = {name: pa.array(cohort.snps[name], kind, from_pandas=True) for name, kind in _SNP_FIELDS}
    table = pa.table({**columns, "calls": calls}).replace_schema_metadata({PEOPLE: json.dumps(people)})
    with atomic_file(path) as handle:
        pq.write_table(table, handle, compression="zstd", use_dictionary=False, row_group_size=_ROW_GROUP)
    return ref


def _missing_calls(calls: Calls) -> npt.NDArray[np.int64]:
    """Return the number of missing calls of each person, in pieces of SNPs to save memory."""
    missing = np.zeros(calls.shape[1], dtype=np.int64)
    for start in range(0, len(calls), _ROW_GROUP):
        missing += (calls[start : start + _ROW_GROUP] == MISSING).sum(axis=0)
    return missing


def has_enough_calls(
    missing: npt.NDArray[np.int64], n_calls: int | npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return a mask of people or SNPs with ``n_calls`` calls that lack at most a tenth of them."""
    return np.asarray(missing <= _MAX_MISSING * n_calls)


def read_genotypes(ref: GenotypeRef) -> Genotypes:
    with pq.ParquetFile(verified_path(ref)) as file:
        people, table = json.loads(file.metadata.metadata[PEOPLE]), file.read(SNP_COLUMNS)
        calls = np.empty((ref.n_snps, ref.n_rows), dtype=np.int8)
        start = 0
        for batch in file.iter_batches(_ROW_GROUP, columns=["calls"]):
            (column,) = batch.columns
            offset, count = (ref.n_rows * n for n in (column.offset, len(column)))
            values = np.frombuffer(column.buffers()[1], np.int8, count, offset)
            calls[start : start + len(column)] = values.reshape(-1, ref.n_rows)
            start += len(column)
    return Genotypes(
        calls=calls.T,
        group=np.array(people["group"], dtype=np.int8),
        missing=np.array(people["missing"], dtype=np.int64),
        n_snps_stored=ref.n_snps,
        group_names=ref.group_names,
        labels=tuple(people["label"]),
        snps=table.to_pandas(),
    )
