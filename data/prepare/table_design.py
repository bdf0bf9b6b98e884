"""Put the columns of a registered table into public units, or standardize them by the full data.

Whatever units a fit uses, errors are measured in standard deviations of all the rows, so that fits compare.
"""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from data.dataset import Dataset
from data.errors import DataError
from data.prepare.prepared_table import INTERCEPT, PreparedTable, Units

_NOTES = {
    "public": (
        "Centers and scales are public constants and an intercept is fitted, so the privacy guarantee "
        "covers the preparation as well."
    ),
    "standardised": (
        "Columns are standardized by the mean and standard deviation of the full data, as in the paper; "
        "this step is not private and no guarantee covers it."
    ),
}
_RESPONSE, _GROUP = "response", "group"

FloatArray = npt.NDArray[np.float64]


def prepare_table(
    table: pd.DataFrame,
    dataset: Dataset,
    *,
    covariates: Sequence[str],
    response: str,
    units: Units,
    raw_response: bool = False,
) -> PreparedTable:
    """Prepare columns for a mean or a regression.

    Parameters
    ----------
    table : pandas.DataFrame
        From `data.store.references.read_table`.
    dataset : Dataset
        Supplies the public centers and scales.
    covariates : sequence of str
    response : str
        Empty for the mean of the covariates.
    units : {"public", "standardised"}
        ``"public"``: ``(value - center) / scale`` with the registry's constants, and an intercept for a
        regression. ``"standardised"``: z-scores by the full data (divisor n); not private, and no intercept
        unless the response is raw.
    raw_response : bool
        Whether responses stay as they are: counts and labels of a generalized linear model.

    Raises
    ------
    DataError
        Unknown units or column, a column used twice, without public units or constant.
    """
    if units not in get_args(Units):
        raise DataError(f"units must be one of {', '.join(get_args(Units))}, got {units!r}; pick one")
    names = (*covariates, response) if response else tuple(covariates)
    if not covariates or len(set(names)) < len(names):
        raise DataError(
            f"covariates must be distinct columns other than the response, got {list(covariates)} "
            f"for {response!r}; name each once"
        )
    columns = [dataset.column(name) for name in names]
    if missing := [name for name in names if name not in table.columns]:
        raise DataError(
            f"the table of {dataset.name} lacks {missing}; run `dpcost ingest {dataset.name} --again`"
        )
    values = table[list(names)].to_numpy(dtype=np.float64)
    mean, std = values.mean(axis=0), values.std(axis=0)
    # In public units some covariates may be constant: their coefficients are then no part of any error.
    constant = [name for name, spread in zip(names, std, strict=True) if not spread > 0]
    if units == "public" and not set(covariates) <= set(constant):
        constant = [name for name in constant if name == response]
    if constant:
        raise DataError(
            f"{dataset.name} has columns that are constant: {', '.join(map(repr, constant))}; leave them out "
            "(of 'column=category' the category)"
        )
    center, scale = mean, std
    if units == "public":
        for column in columns:
            if column.scale is None:
                raise DataError(
                    f"column {column.name!r} of {dataset.name} has no public center and scale; "
                    "add them to its DATASET"
                )
        center = np.array([column.center for column in columns], dtype=np.float64)
        scale = np.array([column.scale for column in columns], dtype=np.float64)
    if raw_response:
        center, scale, std = np.append(center[:-1], 0.0), np.append(scale[:-1], 1.0), np.append(std[:-1], 1.0)
    scaled = (values - center) / scale
    d = len(covariates)
    intercept = bool(response) and (units == "public" or raw_response)
    # A slope in these units is one scale of y per scale of x; in z-scores, one standard deviation each.
    factors = (std[:d] / scale[:d]) * (scale[-1] / std[-1]) if response else scale / std
    X = np.column_stack([scaled[:, :d], np.ones(len(scaled))]) if intercept else scaled[:, :d]
    return PreparedTable(
        X=np.ascontiguousarray(X),
        y=scaled[:, -1].copy() if response else None,
        column_names=(*covariates, INTERCEPT) if intercept else tuple(covariates),
        to_standard=np.eye(d, X.shape[1]) * np.append(factors, np.ones(X.shape[1] - d)),
        private=units == "public",
        note=_NOTES[units],
    )


def table_bytes(prepared: PreparedTable) -> bytes:
    """Serialize as Parquet: columns by their numbers, since they may have any name; the rest as metadata."""
    assert prepared.to_standard is not None
    facts = {
        "column_names": list(prepared.column_names),
        "to_standard": prepared.to_standard.tolist(),
        "private": prepared.private,
        "note": prepared.note,
    }
    columns = {str(j): column for j, column in enumerate(prepared.X.T)}
    for name, column in ((_RESPONSE, prepared.y), (_GROUP, prepared.groups)):
        if column is not None:
            columns[name] = column
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata({"design": json.dumps(facts)}), buffer)
    return buffer.getvalue()


def read_prepared_table(path: Path) -> PreparedTable:
    """Read a table written by `table_bytes`."""
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"design"])
    names = tuple(facts["column_names"])
    return PreparedTable(
        X=np.column_stack([table[str(j)].to_numpy() for j in range(len(names))]),
        y=table[_RESPONSE].to_numpy().copy() if _RESPONSE in table.column_names else None,
        groups=table[_GROUP].to_numpy().copy() if _GROUP in table.column_names else None,
        column_names=names,
        to_standard=np.array(facts["to_standard"]),
        private=facts["private"],
        note=facts["note"],
    )
