"""The results table of a study: collected from all blocks, and read again."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from data.results.table import ResultsError, to_parquet_bytes, validate_results
from data.store.folders import atomic_write, open_regular, read_json
from tasks.cache import Written
from tasks.errors import SpecError, guarded

RESULTS = "results.parquet"
_SAME_IN_ALL_PANELS = ["estimator", "form", "steps", "calibration", "epsilon", "delta_rule", "n", "s"]


@guarded
def write_results(parts: Sequence[Path], audits: Sequence[Path], folder: Path) -> Written:
    """Write ``results.parquet`` from the files of blocks and audits.

    Measured times, which alone vary from run to run, are written to a table of their own.
    """
    rows = pd.concat(map(pd.read_parquet, parts), ignore_index=True)
    times = rows[["study", "cell", "replicate", "seconds"]].dropna()
    measured = to_parquet_bytes(times.drop_duplicates(["cell", "replicate"]))
    atomic_write(folder / "timings.parquet", measured)
    rows = validate_results(_with_audits(rows.drop(columns="seconds"), [read_json(path) for path in audits]))
    content = to_parquet_bytes(rows)
    atomic_write(folder / RESULTS, content)
    files = {RESULTS: content, "timings.parquet": measured}
    return Written(tuple((str(folder / n), hashlib.sha256(each).hexdigest()) for n, each in files.items()))


def _with_audits(rows: pd.DataFrame, audits: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows with the audited ε of the audited cells, also in panels that were not audited."""
    bounds = {audit["cell"]: audit["audited_epsilon"] for audit in audits}
    cells = rows.drop_duplicates("cell")[["cell", *_SAME_IN_ALL_PANELS]]
    alike = cells.groupby(_SAME_IN_ALL_PANELS, dropna=False, sort=False).ngroup()
    bound = cells["cell"].map(bounds).astype("float64").groupby(alike).transform("max")
    audited = rows["cell"].map(dict(zip(cells["cell"], bound, strict=True)))
    return rows.assign(audited_epsilon=audited.where(rows["calibration"] != "none"))


def read_results(run: Path) -> pd.DataFrame:
    """Return the results table of a run: its folder, or the Parquet file itself."""
    path = run / RESULTS if run.is_dir() else run
    try:
        with open_regular(path) as file:
            return validate_results(pd.read_parquet(file))
    except (FileNotFoundError, NotADirectoryError):
        reason = f"{run} holds no results.parquet; pass a folder such as reports/out/housing"
    except ResultsError as error:
        reason = f"{path} is not a results table of this version: {error}; run the study again"
    except Exception as error:  # whatever a reader of damaged files raises
        reason = (
            f"{path} is not a readable Parquet file ({type(error).__name__}); "
            "write it anew with dpcost run, or pass another"
        )
    raise SpecError(reason)
