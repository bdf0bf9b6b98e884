"""An analyst's table in the store: checked once against its declaration, then reused."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data.columns import Declaration
from data.errors import DataError
from data.fetch.ingest import keep_reference, stored_table
from data.formats.canonical import CanonicalBatch
from data.store.code_digest import code_digest
from data.store.folders import atomic_file, sha256_file, sha256_files, store_dir
from data.store.references import OWN_FILE, DatasetRef
from data.tables.declared import DeclaredTable, read_declared
from data.tables.queries import Query
from data.tables.sources import Source


def declared_to_parquet(name: str, source: Source, declaration: Declaration, *, home: Path) -> DatasetRef:
    """Check a table against its declaration and store it, or reuse the one stored before."""
    read, content = None, ""
    if isinstance(source, Query):  # only reading says whether its result changed
        read, content = _read_with_digest(source, declaration)
    else:
        content = _digest_of_files(source)
    read_by = asdict(declaration.marks)
    metadata = json.dumps([name, read_by, declaration.described], default=lambda each: each.described)
    declared = hashlib.sha256(metadata.encode()).hexdigest()
    file = f"{name}-{content[:16]}-{declared[:8]}-{code_digest([__name__])[:8]}.parquet"
    target = store_dir(home) / "parquet" / file
    if stored := stored_table(target):
        return replace(stored, path=str(target))
    if read is None:
        read = read_declared(source, declaration)
        if _digest_of_files(source) != content:
            raise DataError(f"{source} changed while it was read; run again once it is complete")
    arrow = pa.table(read.table)
    with atomic_file(target) as handle:
        pq.write_table(arrow, handle)
    counted: dict[str, Any] = {"n_rows": arrow.num_rows, "rows_read": len(read.is_complete)}
    if user_id := declaration.user_id:  # how many rows users have is private
        n_users = int(read.table[user_id].max()) + 1
        counted = {"n_rows": n_users, "rows_read": declaration.n_users, "unit": "user"}
    ref = DatasetRef(
        name=name,
        path=str(target),
        sha256=sha256_file(target),
        source_sha256=content,
        source_url="",
        layout=source.database if isinstance(source, Query) else Path(str(source)).suffix[1:] or "parquet",
        origin=OWN_FILE,
        data_source="real",
        repairs=(
            *read.repairs,
            *(replace(one, what="value", done="clipped to the nearer bound") for one in read.clipped),
        ),
        **counted,
    )
    keep_reference(ref)
    return ref


def _digest_of_files(source: Source) -> str:
    try:
        return sha256_files(Path(str(source)))
    except OSError as error:
        raise DataError(f"{source} cannot be read ({error.strerror}); correct data.path") from None


def _read_with_digest(query: Query, declaration: Declaration) -> tuple[DeclaredTable, str]:
    """Read the result of a query once, and return it with the digest of its rows in their order."""
    digest = hashlib.sha256()

    def watch(batch: CanonicalBatch) -> None:
        digest.update(batch.rows.serialize())

    return read_declared(query, declaration, watch=watch), digest.hexdigest()
