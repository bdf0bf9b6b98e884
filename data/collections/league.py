"""The public tables of the league, in public units and within the bounds that ``league.toml`` declares.

Rows with a missing value are dropped. The rows of a large table are sampled with a fixed seed. Values are
clipped to their bounds. Each category except the first becomes a column of −1 and 1. A logistic response is 0
or 1.
"""

import hashlib
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from data.collections import module_of, wang2018
from data.columns import Column
from data.dataset import PACKAGED, Dataset, Source
from data.errors import CorruptSource

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 20_000
GROUPS = {"": "linear", "logistic": "logistic", "poisson": "counts"}  # by family; and "means", of all tables
_PREFIX = "league_"
_R_TABLES = (
    "https://raw.githubusercontent.com/vincentarelbundock/Rdatasets/1dcc2bf5f955cc1224a3e1307256e1fe86b68dae"
)
_OF_SKLEARN = {"diabetes": "diabetes_data_raw.csv.gz", "breast_cancer": "breast_cancer.csv"}
_TARGET = ("diabetes_target.csv.gz", "8e53f65eb811df43c206f3534bb3af0e5fed213bc37ed6ba36310157d6023803")
_CODEBOOK = "the codebook, or general knowledge, before the values were looked at"


@cache
def declarations() -> dict[str, dict[str, Any]]:
    """Return the declaration of each table in ``league.toml``."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: about for name, about in tables.items() if "rows" in about}


def tables() -> tuple[str, ...]:
    return tuple(f"{_PREFIX}{name}" for name in declarations())


def problems(groups: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of a panel's problem on each table of some groups: response and covariates."""
    problems_of: dict[str, dict[str, Any]] = {}
    for name, about in declarations().items():
        response, family = about["response"], about.get("family", "")
        settings = {"covariates": [each.name for each in columns_of(about) if each.name != response]}
        if GROUPS[family] in groups:
            settings |= {"response": response, "family": family}
        elif "means" not in groups:
            continue
        problems_of[f"{_PREFIX}{name}"] = settings
    return problems_of


def developed_on(dataset: str) -> bool:
    """Return whether estimators may be tuned on a table, by a rule that uses its name only."""
    name = dataset.removeprefix(_PREFIX)
    return int(hashlib.sha256(name.encode()).hexdigest()[0], 16) % 2 == 0


@cache
def load(dataset: str) -> ModuleType:
    return table_module(dataset, declarations()[dataset.removeprefix(_PREFIX)])


def table_module(dataset: str, about: dict[str, Any]) -> ModuleType:
    package, item = about["source"]
    declared = Dataset(
        name=dataset,
        title=dataset.removeprefix(_PREFIX).replace("_", " ").capitalize(),
        description=f"The table {item} of {package}.",
        privacy_unit="one row",
        n_rows=about["rows"],
        license="as its package says: these tables are published for teaching",
        citation=f"The table {item} of {package}.",
        source=_source(package, item, about.get("sha256", "")),
        columns=columns_of(about),
    )
    return module_of(declared, lambda path: _in_bounds(_read(package, item, path), about))


def _source(package: str, item: str, sha256: str) -> Source:
    if package == "wang2018":
        return wang2018.load(f"wang2018_{item}").DATASET.source  # type: ignore[no-any-return]
    if package == "statsmodels":
        url, file = f"{PACKAGED}statsmodels/datasets/{item}/{item}.csv", f"{item}.csv"
        return Source(file=f"league/{file}", url=url, layout="csv", sha256=sha256)
    if package == "sklearn":
        folder, file = f"{PACKAGED}sklearn/datasets/data", _OF_SKLEARN[item]
        target = Source(f"league/{_TARGET[0]}", f"{folder}/{_TARGET[0]}", "target", _TARGET[1])
        more = (target,) if item == "diabetes" else ()
        return Source(f"league/{file}", f"{folder}/{file}", "csv", sha256, companions=more)
    url = f"{_R_TABLES}/csv/{package}/{item}.csv"
    return Source(file=f"league/{package}-{item}.csv", url=url, layout="csv", sha256=sha256)


def _read(package: str, item: str, path: Path) -> "pd.DataFrame":
    """Return the rows of a file; the library that ships a table reads it."""
    import pandas as pd  # here and below: files are checked without it

    if package == "wang2018":
        return pd.DataFrame(wang2018.load(f"wang2018_{item}").PARSERS["npz"](path))
    if package == "sklearn":
        from sklearn import datasets

        raw = {"scaled": False} if item == "diabetes" else {}
        return pd.DataFrame(getattr(datasets, f"load_{item}")(as_frame=True, **raw).frame)
    if package == "statsmodels":
        import statsmodels.api as sm

        return pd.DataFrame(getattr(sm.datasets, item).load_pandas().data)
    return pd.read_csv(path, keep_default_na=False, na_values=["", "NA"])


def _in_bounds(frame: "pd.DataFrame", about: dict[str, Any]) -> "pd.DataFrame":
    """Return the declared columns as numbers within their bounds, at most 20,000 rows."""
    import pandas as pd

    declared = about["columns"]
    if missing := sorted(set(declared) - set(frame)):
        raise CorruptSource(f"the file must have the declared columns, but lacks {', '.join(missing)}")
    frame = frame[list(declared)].dropna()
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    columns: dict[str, Any] = {}
    for name, entry in declared.items():
        column = frame[name]
        if name == about["response"] and about.get("family") == "logistic":
            last = entry[-1]
            is_last = column.astype(str) == last if isinstance(last, str) else column.astype(float) >= last
            columns[name] = is_last.to_numpy(float)
        elif isinstance(entry[0], str):
            text = column.astype(str)
            columns |= {f"{name}={each}": 2.0 * (text == each).to_numpy() - 1 for each in entry[1:]}
        else:
            columns[name] = np.clip(column.to_numpy(float), *entry[:2])
    return pd.DataFrame(columns)


def columns_of(about: dict[str, Any]) -> tuple[Column, ...]:
    source, columns = about.get("bounds", _CODEBOOK), list[Column]()
    for name, entry in about["columns"].items():
        if name == about["response"] and about.get("family") == "logistic":
            columns.append(Column(name, "float64", "", 0.0, 1.0, source, 0.0, 1.0))
        elif isinstance(entry[0], str):
            columns += [
                Column(f"{name}={each}", "float64", "", -1.0, 1.0, source, 0.0, 1.0) for each in entry[1:]
            ]
        else:
            low, high, *unit = map(float, entry)
            center, scale = unit or ((low + high) / 2, (high - low) / 4)
            is_count = name == about["response"] and about.get("family") == "poisson"
            dtype: Literal["int64", "float64"] = "int64" if is_count else "float64"
            columns.append(Column(name, dtype, "", low, high, source, center, scale))
    return tuple(columns)
