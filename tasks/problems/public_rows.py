"""Public rows next to an analyst's own table, in the columns and units that its owner declared."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from data.errors import DataError
from data.tables.declared import read_declared
from data.tables.reading import load_numbers, opened_table
from tasks.file_schema import Strict
from tasks.problems.analyst_table import AnalystColumn, AnalystTable

PUBLIC_SHAPE = "public_shape"  # the diagnostic of an estimator: 1 where it used the public rows, else 0
FloatArray = npt.NDArray[np.float64]


class PublicTable(Strict):
    """Where public rows are, and why they are public: of people who agreed, or of a published table.

    The file must not be that of the private rows. Nothing tests whether some of its rows are private: a
    refusal would tell of those. Their owner declares that none is.
    """

    data: Annotated[str, Field(pattern=r"^[^\x00]+$")]  # CSV or Parquet, from the folder of the TOML file
    source: Annotated[str, Field(min_length=1)]

    def resolved_from(self, file: Path) -> "PublicTable":
        """Return the declaration with its path resolved from the folder of a TOML file."""
        return self.model_copy(update={"data": str((file.parent / self.data).resolve())})


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicRows:
    """Public rows by column, as a study's ingested table has them; the file does not decide their order."""

    file: str
    source: str
    columns: Mapping[str, FloatArray]  # (m,) each
    ignored: tuple[str, ...]  # columns of the file that are not used

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @cached_property
    def sha256(self) -> str:
        """The digest of names and values, whatever the file's format and the order of its rows."""
        digest = hashlib.sha256(json.dumps(list(self.columns)).encode())
        for values in self.columns.values():
            digest.update(values.tobytes())
        return digest.hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        return {"file": self.file, "sha256": self.sha256, "rows": self.n_rows, "source": self.source}

    @property
    def sentence(self) -> str:
        ignored = f"; not used of it: {', '.join(map(repr, self.ignored))}"
        return f"{self.n_rows:,} public rows come from {self.file}{ignored * bool(self.ignored)}"

    def require(self, columns: Iterable[str]) -> None:
        for name in columns:
            if name not in self.columns:
                column = name.partition("=")[0]  # a category is called column=category
                raise DataError(
                    f"{self.file} has no column {column!r}, which public rows need as well; add it, or leave "
                    "it out of the covariates"
                )

    def design(self, units: Mapping[str, Sequence[float]], *, intercept: bool) -> FloatArray:
        """Return columns in units (center, scale), as private rows have them, (m, k); ones are the last."""
        self.require(units)
        scaled = [(self.columns[name] - center) / scale for name, (center, scale) in units.items()]
        return np.column_stack([*scaled, *([np.ones(self.n_rows)] if intercept else [])])


def refuse_private_file(public: PublicTable, private: Iterable[Path]) -> None:
    path = Path(public.data)
    if any(each.exists() and path.exists() and path.samefile(each) for each in private):
        raise DataError(f"public.data must be another file than that of the private rows, got {path}")


def read_public_rows(
    public: PublicTable,
    analyst_table: AnalystTable,
    columns: Sequence[AnalystColumn],
    unused: Collection[str] = (),
) -> PublicRows:
    """Read those of some columns that the file has; bounds, categories and missing cells are as declared.

    Rows that are left out for a missing cell are those of all ``columns``, also of ``unused`` ones.
    """
    path = Path(public.data)
    names = _header(path)
    there = [column for column in columns if set(column.uses) <= set(names)]
    if not there:
        raise DataError(f"{path} has none of the columns that [[data.columns]] declares; correct its header")
    declaration = replace(analyst_table.declaration(there), n_rows=None, user_id="", n_users=None)
    table = read_declared(path, declaration).table
    kept = {name: values for name, values in table.items() if name not in unused}
    return _in_order(public, kept, names, [one.name for one in there if one.name not in unused])


def read_public_numbers(public: PublicTable, columns: Sequence[str]) -> PublicRows:
    """Read columns of numbers as they are, where no study file declares any."""
    path = Path(public.data)
    table = load_numbers(path, columns)
    return _in_order(public, {name: table[name].to_numpy() for name in columns}, _header(path), columns)


def _header(path: Path) -> list[str]:
    with opened_table(path) as (names, _):
        return names


def _in_order(
    public: PublicTable, table: Mapping[str, FloatArray], names: Sequence[str], wanted: Sequence[str]
) -> PublicRows:
    columns = {name: table[name] + 0.0 for name in sorted(table)}  # one zero, not two
    order = np.lexsort(list(columns.values()))
    return PublicRows(
        file=Path(public.data).name,
        source=public.source,
        columns={name: values[order] for name, values in columns.items()},
        ignored=tuple(name for name in names if name not in wanted),
    )
