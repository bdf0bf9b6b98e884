"""The results table of a study, collected from all blocks."""

from pathlib import Path

import pandas as pd

from reports.analysis.results import timings_path, to_parquet_bytes, validate_results
from tasks.cache.keys import CacheKey
from tasks.cache.records import Record, brought, written
from tasks.faults import guarded

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
        if timings_path(file).name in part.get("beside", {})
    ]
    times = to_parquet_bytes(pd.concat(map(pd.read_parquet, measured)))
    path = Path(out) / "results.parquet"
    return written(key, path, to_parquet_bytes(rows), {"timings.parquet": times}, rows=len(rows))


def _with_audits(rows: pd.DataFrame, audits: list[Record]) -> pd.DataFrame:
    """Return the rows with the audited ε of the audited cells, also in panels that were not audited."""
    found = {record["cell"]: record["audited_epsilon"] for record in audits}
    cells = rows.drop_duplicates("cell")[["cell", *_SAME_IN_ALL_PANELS]]
    alike = cells.groupby(_SAME_IN_ALL_PANELS, dropna=False, sort=False).ngroup()
    bound = cells["cell"].map(found).astype("float64").groupby(alike).transform("max")
    audited = rows["cell"].map(dict(zip(cells["cell"], bound, strict=True)))
    return rows.assign(audited_epsilon=audited.where(rows["calibration"] != "none"))
