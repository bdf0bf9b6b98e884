"""The results table of a run, read again."""

from pathlib import Path

import pandas as pd

from data.store.folders import open_regular
from reports.analysis.results import ResultsError, validate_results
from tasks.faults import SpecError


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
