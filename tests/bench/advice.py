"""Accuracy of `dpcost advise`: forecasts from declarations against errors and intervals measured on tables.

The tables are those of `data/collections/league.toml`, but for the league's own. Files of R packages are
read from the folder ``R_DATASETS``, a checkout of vincentarelbundock/Rdatasets, or downloaded by statsmodels.
"""

import os
import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn import datasets as sklearn_datasets

from data.store.folders import PROJECT_ROOT
from data.tables.stored import declared_to_parquet
from dpalgos import InputError, get_estimator
from flows.studies.find_study import find_study
from tasks.advice.forecasts import advise
from tasks.advice.releases import LEVEL
from tasks.cells import Cell, Replicates
from tasks.own_table.row_simulator import Guesses
from tasks.problems.kinds import measure_of
from tasks.run.compute import compute_block
from tasks.study.spec import StudySpec
from tests.bench.goals import Measurement, shares_held
from tests.tasks.analyst_tables import initialized
from tests.tasks.blocks import prepared_data

DECLARED = tomllib.loads((PROJECT_ROOT / "data" / "collections" / "league.toml").read_text())
TABLES: dict[str, dict[str, Any]] = {n: about for n, about in DECLARED.items() if "bounds" not in about}
_REPLICATES, _CELL = 20, ("estimator", "form", "n", "epsilon")


def bench_advice(small: bool = False) -> Measurement:
    """Compare forecasts with measured errors, on tables that the forecasts were not developed on."""
    held_out = ["wine"] if small else [name for name, about in TABLES.items() if "developed" not in about]
    cells = pd.concat([compared(name, 2 if small else _REPLICATES) for name in held_out], ignore_index=True)
    width = (cells["high"] / cells["low"]).groupby(cells["guessed"]).median()
    goals, facts = [], {"tables": str(len(held_out))}
    for guessed, of_kind in cells.groupby("guessed"):
        words = "with guesses" if guessed else "from declarations alone"
        of_intervals = of_kind.dropna(subset="intervals")
        goals += shares_held(
            (
                (f"ranges that hold, {words}", of_kind["held"], 90),
                (f"forecasts within a factor of two, {words}", of_kind["double"], 85),
                (f"numbers of intervals in their range, {words}", of_intervals["intervals_held"], 90),
            )
        )
        kind = "guessed" if guessed else "declared"
        facts |= {
            f"{kind}/forecasts": str(len(of_kind)),
            f"{kind}/close": f"{of_kind['double'].sum()} ({of_kind['double'].mean():.0%})",
            f"{kind}/held": f"{of_kind['held'].sum()} ({of_kind['held'].mean():.0%})",
            f"{kind}/above": f"{(of_kind['measured'] > of_kind['high']).sum()}",
            f"{kind}/farthest": f"{(of_kind['measured'] / of_kind['high']).max():.2g}",
            f"{kind}/width": f"{width[guessed]:.2g}",
            f"{kind}/intervals": f"{of_intervals['intervals_held'].sum()} of {len(of_intervals)}",
        }
    return Measurement(
        figure=f"{len(cells)} forecasts on {len(held_out)} tables; ends of ranges are a factor of "
        f"{' (from declarations alone) and '.join(f'{each:.2g}' for each in width)} (with guesses) apart",
        goals=goals,
        data=", ".join(held_out),
        facts=facts,
    )


def compared(name: str, replicates: int) -> pd.DataFrame:
    """Return forecasts and measurements of one table, by estimator, size and ε, without and with guesses."""
    with TemporaryDirectory() as folder:
        spec = study_of(name, Path(folder))
        measured, intervals = measure(spec, replicates, Path(folder))
    guesses = Guesses(**TABLES[name].get("guesses", {}))
    rows = []
    for guessed in (False, True):
        forecasts = advise(spec.model_copy(update={"guesses": guesses} if guessed else {})).forecasts
        for each in forecasts:
            key = (each.estimator, each.form, each.n, each.epsilon)
            if not each.private or each.refused or key not in measured.index:
                continue
            found, (_, least, most) = intervals.get(key, np.nan), each.intervals
            rows.append(
                {
                    "guessed": guessed,
                    "low": each.low,
                    "high": each.high,
                    "measured": measured[key],
                    "double": 0.5 <= each.error / measured[key] <= 2,
                    "held": each.low <= measured[key] <= each.high,
                    "intervals": found,
                    "intervals_held": round(least) <= found <= round(most),
                }
            )
    return pd.DataFrame(rows)


def measure(spec: StudySpec, replicates: int, folder: Path) -> tuple[pd.Series, dict[tuple[Any, ...], float]]:
    """Return mean errors by cell, and mean numbers of intervals at the headline's size."""
    about, problem = spec.analyst_table, spec.head_panel.problem
    table = declared_to_parquet(spec.name, Path(about.path), about.declaration(about.columns), home=folder)
    prepared = prepared_data(problem, table, folder)
    blocks = spec.blocks("paper", replicates=replicates, seed=2)
    rows = pd.concat(compute_block(block, prepared) for block in blocks)
    rows = rows[rows["metric"] == measure_of(problem).metric(problem.traits)]
    intervals = {}
    for block in blocks:
        drawn = block.replicates
        if drawn.n != spec.headline.n or drawn.first:
            continue
        draws = list(problem.draws(drawn, prepared))
        for cell in block.cells:
            if get_estimator(cell.estimator).private and get_estimator(cell.estimator).has_interval:
                key = (cell.estimator, cell.form, cell.n, cell.epsilon)
                intervals[key] = _number_of_intervals(cell, drawn, draws)
    return rows.groupby(list(_CELL))["value"].mean(), intervals


def _number_of_intervals(cell: Cell, drawn: Replicates, draws: list[Any]) -> float:
    """Return how many coordinates have an interval on average, the intercept left out; NaN if none can."""
    asked, counts = replace(cell, params={**cell.params, "interval": LEVEL}), []
    for draw in draws:
        try:
            ends = draw.answer(asked, drawn).interval
        except InputError:
            return float("nan")
        told = np.isfinite(draw.columns(ends[0])) & (np.abs(draw.to_target).sum(axis=0) > 0)[:, None]
        counts.append(told.sum(axis=0))
    return float(np.concatenate(counts).mean())


def study_of(name: str, folder: Path) -> StudySpec:
    """Write a table and its study as `dpcost init` does, with what the owner declares, and read it."""
    about, frame = TABLES[name], frame_of(TABLES[name])
    if rows := about.get("rows_per_user"):
        frame[about["user_id"]] = np.arange(len(frame)) // rows
    user_id = about.get("user_id", "")
    frame = frame[[*about["columns"], *([user_id] if user_id else [])]].dropna()
    numbers = {column: told for column, told in about["columns"].items() if not isinstance(told[0], str)}
    texts = {column: told for column, told in about["columns"].items() if isinstance(told[0], str)}
    frame = frame.astype(dict.fromkeys(texts, str))
    keys = ("response", "family", "user_id")
    options = {key: about[key] for key in keys if key in about}
    bounds = {column: told[:2] for column, told in numbers.items()}
    file = initialized(folder, frame, bounds=bounds, categories=texts, name=name, **options)
    head, *blocks = file.read_text().split("[[data.columns]]\n")
    for number, block in enumerate(blocks):
        column = tomllib.loads(block.splitlines()[0])["name"]
        told = numbers.get(column, [])[2:]
        lines = [f"{key} = {value}" for key, value in zip(("center", "scale"), told, strict=False)]
        lines += ['transform = "log"'] if column in about.get("log", ()) else []
        blocks[number] = "\n".join([block.splitlines()[0], *lines, *block.splitlines()[1:], ""])
    text = "[[data.columns]]\n".join([head, *blocks]).replace('outside = "refuse"', 'outside = "clip"')
    file.write_text(text)
    return find_study(str(file)).model_copy(update={"guesses": Guesses()})


def frame_of(about: dict[str, Any]) -> pd.DataFrame:
    """Return a table; where it has an ``event``, whether a column is among its highest values."""
    frame = _frame(*about["source"])
    if "event" not in about:
        return frame
    column, share = about["event"]
    is_event = frame[column] >= frame[column].quantile(1 - share)
    return frame.assign(event=np.where(is_event, "yes", "no"))


def _frame(package: str, item: str) -> pd.DataFrame:
    if package == "sklearn":
        loaded = getattr(sklearn_datasets, f"load_{item}")
        raw = {"scaled": False} if item == "diabetes" else {}
        return loaded(as_frame=True, **raw).frame
    if package == "statsmodels":
        return getattr(sm.datasets, item).load_pandas().data
    if "R_DATASETS" not in os.environ:
        return sm.datasets.get_rdataset(item, package).data
    file = Path(os.environ["R_DATASETS"]) / "csv" / package / f"{item}.csv"
    return pd.read_csv(file, keep_default_na=False, na_values=["", "NA"])
