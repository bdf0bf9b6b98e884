"""The results table of a study: collected from all blocks, and read again."""

from pathlib import Path

import pandas as pd

from data.store.folders import open_regular
from reports.analysis.results import ResultsError, timings_path, to_parquet_bytes, validate_results
from tasks.cache import CacheKey, Record, brought, written
from tasks.errors import SpecError, guarded

_SAME_IN_ALL_PANELS = ["estimator", "form", "steps", "calibration", "epsilon", "delta_rule", "n", "s"]


@guarded
def collect(key: CacheKey, parts: list[Record], audits: list[Record], out: str) -> Record:
    """Write ``results.parquet`` from parts and audits, and apart the times, which alone vary."""
    files = [brought(part) for part in parts]
    rows = pd.concat(map(pd.read_parquet, files), ignore_index=True)
    rows = validate_results(_with_audits(rows, audits))
    measured = [
        timings_path(file)
        for part, file in zip(parts, files, strict=True)
        if timings_path(file).name in part.get("attached", {})
    ]
    times = to_parquet_bytes(pd.concat(map(pd.read_parquet, measured)))
    path = Path(out) / "results.parquet"
    return written(key, path, to_parquet_bytes(rows), {"timings.parquet": times}, rows=len(rows))


def _with_audits(rows: pd.DataFrame, audits: list[Record]) -> pd.DataFrame:
    """Return the rows with the audited ε of the audited cells, also in panels that were not audited."""
    bounds = {record["cell"]: record["audited_epsilon"] for record in audits}
    cells = rows.drop_duplicates("cell")[["cell", *_SAME_IN_ALL_PANELS]]
    alike = cells.groupby(_SAME_IN_ALL_PANELS, dropna=False, sort=False).ngroup()
    bound = cells["cell"].map(bounds).astype("float64").groupby(alike).transform("max")
    audited = rows["cell"].map(dict(zip(cells["cell"], bound, strict=True)))
    return rows.assign(audited_epsilon=audited.where(rows["calibration"] != "none"))


def read_results(run: Path) -> pd.DataFrame:
    """Return the results table of a run: its folder, or the Parquet file itself."""
    path = run / "results.parquet" if run.is_dir() else run
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
