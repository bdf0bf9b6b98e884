"""From a parser's table of text to a typed, checked table; every fault counted, no value shown."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from data.dataset import Dataset
from data.errors import CorruptSource
from data.store.references import Repair

MAX_DROPPED_FRACTION = 0.01


def typed(frame: pd.DataFrame, dataset: Dataset) -> tuple[pd.DataFrame, tuple[Repair, ...]]:
    """Turn a parser's table into the registry's columns and types, and drop the unusable rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        Text or numbers, columns in any order.
    dataset : Dataset

    Returns
    -------
    table : pandas.DataFrame
        The registry's columns in its order, without missing or infinite values.
    repairs : tuple of Repair
        What was dropped and why.

    Raises
    ------
    CorruptSource
        A column is missing or unknown, there are no rows, or more than 1 % of them are unusable.
    """
    for name in dataset.column_names:
        if name not in frame.columns:
            raise CorruptSource(f"{dataset.name}: column {name!r} is missing; get the file again")
    if frame.shape[1] != len(dataset.columns):
        raise CorruptSource(
            f"{dataset.name}: the file has {frame.shape[1]} columns, the registry {len(dataset.columns)}; "
            "get the file again"
        )
    if frame.empty:
        raise CorruptSource(f"{dataset.name}: the file has no rows; get the file again")

    usable = np.ones(len(frame), dtype=bool)
    repairs: list[Repair] = []
    numbers: dict[str, npt.NDArray[np.float64]] = {}
    for column in dataset.columns:
        values, faults = numbers_and_faults(frame[column.name])
        if column.dtype == "int64":
            faults["fraction in a whole-number column"] = np.isfinite(values) & (values != np.rint(values))
        for kind, rows in faults.items():
            if count := int(np.count_nonzero(rows & usable)):
                repairs.append(Repair(f"{kind} {column.name}", count))
                usable &= ~rows
        numbers[column.name] = values

    dropped = sum(repair.count for repair in repairs)
    if dropped > MAX_DROPPED_FRACTION * len(frame):
        raise CorruptSource(
            f"{dataset.name}: {dropped:,} of {len(frame):,} rows are unusable ({describe(repairs)}), "
            f"at most {MAX_DROPPED_FRACTION:.0%} may be dropped; get the file again"
        )
    table = pd.DataFrame({c.name: numbers[c.name][usable].astype(c.dtype) for c in dataset.columns})
    return table, tuple(repairs)


def numbers_and_faults(
    values: "pd.Series[Any]",
) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.bool_]]]:
    """Read a column as floating-point numbers, exactly, and say which rows have what fault.

    Parameters
    ----------
    values : pandas.Series
        Numbers, or text that should be numbers.

    Returns
    -------
    numbers : (n,) array
        NaN where a row is blank or is not a number.
    faults : dict of str to (n,) boolean array
        Keys are phrases that end where the column's name follows.
    """
    text = np.zeros(len(values), dtype=bool)
    if pd.api.types.is_bool_dtype(values):
        numbers, text = np.full(len(values), np.nan), ~text
    elif pd.api.types.is_numeric_dtype(values):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        cells = values.to_numpy(dtype=object).copy()
        cells[values.isna().to_numpy(dtype=bool)] = np.nan
        try:
            numbers = cells.astype(np.float64)
        except (TypeError, ValueError):
            parsed = [_number_or_none(cell) for cell in cells]
            text = np.array([number is None for number in parsed])
            numbers = np.array([np.nan if number is None else number for number in parsed])
    return numbers, {
        "text in number column": text,
        "blank or NaN in column": np.isnan(numbers) & ~text,
        "infinity in column": np.isinf(numbers),
    }


def describe(repairs: tuple[Repair, ...] | list[Repair]) -> str:
    """Return the repairs as one phrase."""
    return ", ".join(f"{repair.reason}: {repair.count:,}" for repair in repairs)


def check_schema(table: pd.DataFrame, dataset: Dataset) -> None:
    """Check names, order, types and public bounds with pandera.

    Raises
    ------
    CorruptSource
        The table leaves the schema; the message names columns and counts, never a value.
    """
    import pandera.pandas as pa

    schema = pa.DataFrameSchema(
        {
            column.name: pa.Column(
                column.dtype, pa.Check.in_range(column.lower, column.upper, error="outside its public bounds")
            )
            for column in dataset.columns
        },
        strict=True,
        ordered=True,
    )
    try:
        schema.validate(table, lazy=True)
    except pa.errors.SchemaErrors as error:
        # pandera's own message quotes the offending cells.
        cases = error.failure_cases.groupby(["column", "check"], sort=False).size()
        faults = ", ".join(f"{column} {check} in {count:,} rows" for (column, check), count in cases.items())
    else:
        return
    raise CorruptSource(f"{dataset.name}: {faults}; get the file again or mend the bounds in the registry")


def table_digest(table: pd.DataFrame) -> str:
    """Return the sha256 of a table's content: names, types, order of rows and every bit of its values.

    Parameters
    ----------
    table : pandas.DataFrame
        ``float64`` and ``int64`` columns.

    Returns
    -------
    str
        64 hexadecimal digits, the same on every machine and for every file layout.
    """
    digest = hashlib.sha256()
    for name in table.columns:
        values = table[name].to_numpy()
        digest.update(f"{name}:{values.dtype.name}:{len(values)}\n".encode())
        # Adding zero makes -0.0 and 0.0 one value.
        digest.update(np.ascontiguousarray(values + 0, dtype=values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _number_or_none(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None
