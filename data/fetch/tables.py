"""A table of numbers in the store: typed, checked and written; faults are counted, values never shown."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource, DataError
from data.fetch.raw import RawFile
from data.formats.canonical import canonical_cells
from data.store.folders import atomic_file
from data.store.references import DatasetRef


def store_table(dataset: Dataset, raw: RawFile, path: Path) -> DatasetRef:
    """Parse, check and write a dataset's table."""
    table = checked_table(_parsed(dataset, raw), dataset)
    with atomic_file(path) as handle:
        pq.write_table(table, handle)
    return DatasetRef(**raw.provenance(path), n_rows=len(table), rows_read=len(table))


def _parsed(dataset: Dataset, raw: RawFile) -> pd.DataFrame:
    """Return the parser's table; an error names the dataset, never a value."""
    parse = datasets.parser(dataset.name, raw.layout)
    try:
        frame: pd.DataFrame = parse(Path(raw.path))
    except DataError:
        raise
    except Exception as error:  # each library has its own
        raise CorruptSource(
            f"{dataset.name}: its file cannot be parsed ({type(error).__name__}); get the file again, or "
            "correct the parser"
        ) from error
    return frame


def checked_table(frame: pd.DataFrame, dataset: Dataset) -> pa.Table:
    """Return a parser's table with the columns and types of the registry; refuse one that does not suit."""
    if set(frame.columns) != set(dataset.column_names) or len(frame) != dataset.n_rows:
        raise CorruptSource(
            f"{dataset.name}: the file has {len(frame):,} rows and {frame.shape[1]} columns, published were "
            f"{dataset.n_rows:,} rows and the columns {', '.join(dataset.column_names)}; get the file again"
        )
    columns, faults = {}, []
    for column in dataset.columns:
        cells = frame[column.name]
        if cells.dtype == object:  # numbers among text
            cells = cells.astype("string")
        numbers = canonical_cells(pa.array(cells, from_pandas=True)).numbers
        usable = (numbers >= column.lower) & (numbers <= column.upper)
        if column.dtype == "int64":
            usable &= numbers == np.rint(numbers)
        if not usable.all():
            faults.append(f"{column.name} in {int((~usable).sum()):,} rows")
        else:
            columns[column.name] = numbers.astype(column.dtype)
    if faults:
        raise CorruptSource(
            f"{dataset.name}: a value is missing, is no number of its type, or is outside its public bounds: "
            f"{', '.join(faults)}; get the file again, or correct the registry"
        )
    return pa.table(columns)
