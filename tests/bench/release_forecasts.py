"""Accuracy of the question that `release` asks: foreseen half-widths and signs against those of releases.

At ε = 1 and δ = 1/n², on all rows of the declared tables that have guesses, a response, and one row
per person.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from data.tables.stored import declared_to_parquet
from tasks.advice.releases import LEVEL, ReleaseForecast, forecast_release
from tasks.cells import Cell, Replicates
from tasks.own_table.row_simulator import Guesses
from tasks.release.request import read_request
from tasks.study.estimators import structure_of
from tests.bench.advice import TABLES, frame_of, study_of
from tests.bench.goals import Measurement, shares_held
from tests.tasks.blocks import prepared_data

_EPSILON, _REPLICATES, _EVENT_REPLICATES = 1.0, 8, 20
_SMALL = ("insured_visits",)


@dataclass(frozen=True, eq=False)
class Released:
    """What was foreseen of a table's release, and the ends of the intervals that releases had, (R, 2, k)."""

    foreseen: ReleaseForecast
    ends: np.ndarray

    @property
    def signs(self) -> float:
        return float(np.median(((self.ends[:, 0] > 0) | (self.ends[:, 1] < 0)).sum(axis=1)))

    def ratios(self) -> np.ndarray:
        """Return foreseen over real half-widths of the coefficients that have both."""
        widths = (self.ends[:, 1] - self.ends[:, 0]) / 2
        mostly = np.isfinite(widths).mean(axis=0) > 0.5
        both = mostly & np.isfinite(self.foreseen.half_widths)
        return np.asarray(self.foreseen.half_widths[both] / np.nanmedian(widths[:, both], axis=0))

    def in_range(self) -> np.ndarray:
        """Return which real half-widths lie in the range that was foreseen, where there is one."""
        widths, (low, high) = (self.ends[:, 1] - self.ends[:, 0]) / 2, self.foreseen.ends
        known = np.isfinite(widths).any(axis=0) & np.isfinite(low)
        real = np.nanmedian(widths[:, known], axis=0)
        return np.asarray((low[known] <= real) & (real <= high[known]))


def bench_release_forecasts(small: bool = False) -> Measurement:
    """Compare what a release is foreseen to tell with what releases told."""
    names = [name for name, about in TABLES.items() if _is_asked(about)]
    found = {name: released(name, 2 if small else _REPLICATES) for name in (_SMALL if small else names)}
    ratios = np.concatenate([each.ratios() for each in found.values()])
    off = np.array([each.signs - each.foreseen.signs[0] for each in found.values()])
    in_range = [each.foreseen.signs[1] <= each.signs <= each.foreseen.signs[2] for each in found.values()]
    shares = (
        ("half-widths within a factor of two", (ratios > 0.5) & (ratios < 2), 90),
        ("signs within ± 1", np.abs(off) <= 1, 80),
        ("signs in their range", np.array(in_range), 90),
    )
    return Measurement(
        figure=f"{len(ratios)} half-widths and the signs of {len(found)} tables",
        goals=shares_held(shares),
        data=", ".join(found),
        facts=_facts(len(found), shares),
    )


def bench_event_forecasts(small: bool = False) -> Measurement:
    """Compare the same where nothing is stated but an event's share or a typical count; half are rare."""
    declared = tomllib.loads((Path(__file__).parent / "event_tables.toml").read_text())
    ratios, in_range, signs = [], [], []
    for name in ("affairs",) if small else declared:
        about = declared[name]
        if "event" in about:
            about |= {"response": "event", "columns": {"event": ["no", "yes"], **about["columns"]}}
        TABLES[name] = {"family": "logistic", **about}
        responses, told = frame_of(about)[about["response"]].dropna(), about["columns"][about["response"]]
        is_text = isinstance(told[0], str)
        mean = (responses == told[1]).mean() if is_text else responses.mean()
        TABLES[name]["guesses"] = {"mean": {about["response"]: float(f"{mean:.2g}")}}
        found = released(name, 2 if small else _EVENT_REPLICATES)
        del TABLES[name]
        ratios.append(found.ratios())
        in_range.append(found.in_range())
        signs.append(found.foreseen.signs[1] <= found.signs <= found.foreseen.signs[2])
    widths, held = np.concatenate(ratios), np.concatenate(in_range)
    shares = (
        ("half-widths within a factor of two", (widths > 0.5) & (widths < 2), 80),
        ("half-widths in their range", held, 90),
        ("signs in their range", np.array(signs), 80),
    )
    return Measurement(
        figure=f"{len(widths)} half-widths, {len(held)} ranges and the signs of {len(signs)} tables",
        goals=shares_held(shares),
        data=", ".join(declared),
        facts=_facts(len(signs), shares),
    )


def _facts(n_tables: int, shares: Iterable[tuple[str, np.ndarray, int]]) -> dict[str, str]:
    counted = {what: f"{held.sum()} of {len(held)}" for what, held, _ in shares if len(held)}
    return {"tables": str(n_tables), **counted}


def _is_asked(about: dict[str, object]) -> bool:
    return (
        "guesses" in about
        and "response" in about
        and not {"user_id", "developed"} & set(about)
        and (about.get("family") != "multinomial")
    )


def released(name: str, replicates: int) -> Released:
    family = TABLES[name].get("family")
    estimator = "preconditioned_glm" if family else "preconditioned_regression"
    params = {"family": family} if family else {}
    with TemporaryDirectory() as made:
        folder = Path(made)
        spec = study_of(name, folder)
        about, panel = spec.analyst_table, spec.head_panel
        table = declared_to_parquet(name, Path(about.path), about.declaration(about.columns), home=folder)
        prepared, n = prepared_data(panel.problem, table, folder), about.rows
        asked = read_request(folder / f"{name}-release.toml", estimator, epsilon=_EPSILON, delta=n**-2.0)
        cell = Cell(
            estimator=estimator,
            panel=panel.name,
            n=n,
            params={
                **structure_of(estimator, None, None, asked.count_bound),
                **params,
                "interval": LEVEL,
                **asked.bounds,
                **asked.params,
            },
            delta_rule="1/n^2",
            calibration="tight",
            epsilon=_EPSILON,
            delta=n**-2.0,
        )
        same = {"study": spec.name, "panel": panel.name, "n": n, "first": 0, "count": 1}
        ends = []
        for seed in range(replicates):
            drawn = Replicates(**same, of=1, seed=seed)
            draw = next(iter(panel.problem.draws(drawn, prepared)))
            ends.append(draw.answer(cell, drawn).interval[:, : len(panel.problem.covariates)])
        own = asked.own.model_copy(update={"guesses": Guesses(**TABLES[name]["guesses"])})
        return Released(forecast_release(replace(asked, own=own)), np.array(ends))
