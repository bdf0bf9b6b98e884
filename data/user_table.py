"""Read a user's own CSV or Parquet file; these data are private, so no message holds a value of theirs.

Not even the header is quoted: in a file without one, the first row of data stands there.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data.data_errors import DataError
from data.table import numbers_and_faults

SUFFIXES = (".csv", ".parquet")


def load_user_table(
    path: Path | str, columns: Sequence[str] = (), *, labels: Sequence[str] = ()
) -> pd.DataFrame:
    """Read the named columns of a CSV or Parquet file and refuse every fault.

    Parameters
    ----------
    path : pathlib.Path or str
        Ends in ``.csv`` (with a header, comma-separated, UTF-8) or ``.parquet``.
    columns : sequence of str
        Columns of numbers to return; by default all but `labels`.
    labels : sequence of str
        Columns that may hold anything but blanks, e.g. user identifiers.

    Returns
    -------
    pandas.DataFrame
        `columns` as ``float64``, then `labels` as they are.

    Raises
    ------
    DataError
        The file is missing, of another kind, unreadable or empty, lacks a column, or a column has
        text, blanks, NaN or infinity. The message names column, kind of fault and number of rows.
    """
    path = Path(path)
    frame = read_user_file(path)
    for name in (*columns, *labels):
        if name not in frame.columns:
            raise DataError(
                f"{path} has no column {name!r} among its {frame.shape[1]}; check the header and the spelling"
            )
    wanted = list(columns) or [name for name in frame.columns if name not in labels]
    table = {}
    for position, name in enumerate(wanted):
        # A column that the caller did not name might be called after a value.
        shown = repr(name) if columns else f"number {position + 1}"
        table[name], faults = numbers_and_faults(frame[name])
        for kind, rows in faults.items():
            if count := int(np.count_nonzero(rows)):
                raise DataError(
                    f"{path}: {kind} {shown} in {count:,} of {len(frame):,} rows; mend or remove them"
                )
    for name in labels:
        if count := int(frame[name].isna().sum()):
            raise DataError(
                f"{path}: blank in column {name!r} in {count:,} of {len(frame):,} rows; mend or remove them"
            )
    return pd.DataFrame({**table, **{name: frame[name] for name in labels}})


def read_user_file(path: Path) -> pd.DataFrame:
    """Return a whole file as it is, e.g. to fingerprint it; parameters and errors as `load_user_table`."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path} must end in {' or '.join(SUFFIXES)}, got {suffix!r}; convert the file")
    if not path.is_file():
        raise DataError(f"{path} is not a file; check the path")
    try:
        frame = (
            _read_csv(path)
            if suffix == ".csv"
            else pq.ParquetFile(path).read().to_pandas(ignore_metadata=True)
        )
    except DataError:
        raise
    except pd.errors.EmptyDataError:
        raise DataError(f"{path} is empty; it needs a header and at least one row") from None
    except OSError as error:
        reason = f" ({error.strerror})" if error.strerror else ""
        raise DataError(f"{path} cannot be read{reason}; check that it is a {suffix} file") from None
    except (ValueError, pa.ArrowException):
        raise DataError(
            f"{path} is not a well-formed {suffix} file (damaged, ragged rows, or not UTF-8); mend it"
        ) from None
    # The order in which pandas once held the rows is no part of the data.
    frame = frame.loc[:, [not str(name).startswith("__index_level_") for name in frame.columns]]
    if not frame.columns.is_unique:
        raise DataError(f"{path} has two columns of the same name; rename one")
    if frame.empty:
        raise DataError(f"{path} has no rows; at least one is needed, check the file")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, low_memory=False)
    if not isinstance(frame.index, pd.RangeIndex):
        raise DataError(f"{path} has rows with more fields than the header; name every column")
    # pandas renames the second of two columns with the same name; that must not pass unseen.
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False)
    if header.shape[1] == frame.shape[1]:
        frame.columns = pd.Index(header.iloc[0].tolist())
    return frame
