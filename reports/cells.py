"""The rows of a summary as cells of a page: their names, their looks and their settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from data.results.table import LIMIT, with_form
from reports.page import ZERO, StudyPage
from reports.palette import look

CALIBRATION_WORDS = {"tight": "tight calibration", "paper": "paper's calibration"}
_BRIEF_WORDS = {"tight": "tight", "paper": "paper's"}
ROUNDING = 1e-9  # a smaller relative difference is none, because processors round differently
_NO_SPREAD = 1e-12  # relative; a spread below it is that of rounding
_ROLES = ("private", "unprotected", "nonprivate", "zero")
_NOISE = ("tight", "paper", "none")
_KEYS = ["estimator", "calibration", "form", "role"]
_BUDGET = ["epsilon", "delta_rule", "panel"]

Row = Any  # of `rows_at`: a named tuple of the columns of `cells_of`


class Setting(NamedTuple):
    """The fixed values of a figure or a table: ε, the rule for δ, and the panel."""

    epsilon: float
    delta_rule: str
    panel: str


def comma(*parts: str | None) -> str:
    """Join the parts that are not empty: "AdaSSP, tight"."""
    return ", ".join(part for part in parts if part)


def cells_of(summary: pd.DataFrame, page: StudyPage) -> pd.DataFrame:
    """Return the rows of a summary with what a page calls them and how it draws them.

    ``role`` is "private", "unprotected" (a private estimator whose events prove no finite ε), "nonprivate" or
    "zero". ``name`` is "AdaSSP (a form)", ``label`` adds the calibration, and ``line`` is the label in brief.
    ``rank`` orders lines: private ones as the catalog does, then non-private ones, then zero.
    """
    names = {"estimator_epsilon": "certified", "audited_epsilon": "audited", "q10": "low", "q90": "high"}
    cells = _with_shared_limits(summary.rename(columns=names))
    roles = [cells["estimator"] == ZERO, cells["privacy_model"] == "none", _is_unprotected(cells)]
    cells["role"] = np.select(roles, ["zero", "nonprivate", "unprotected"], "private")
    cells["se"] = cells["se"].mask(cells["se"] < _NO_SPREAD * cells["mean"].abs(), 0.0)
    cells["error"] = cells["se"].where(np.isfinite(cells["se"]), np.inf)  # of a single repetition: unknown
    cells["answered"] = (cells["n_ok"] > 0) & np.isfinite(cells["mean"])
    keys = list(dict.fromkeys(cells[_KEYS].itertuples(index=False, name=None)))
    forms = {name: sorted({key[2] for key in keys if key[0] == name}) for name, *_ in keys}
    known: list[dict[str, Any]] = []
    for estimator, noise, form, role in keys:
        info, place = page.estimator(estimator), forms[estimator].index(form)
        name = with_form(info.title, form)
        bare = "not private" if role == "unprotected" else None
        known.append({
            **dict(zip(_KEYS, (estimator, noise, form, role), strict=True)),
            "name": name,
            "label": comma(name, CALIBRATION_WORDS.get(noise)),
            "line": comma(name, _BRIEF_WORDS.get(noise), bare),
            "look": look(role, info.order, place, noise),
            "order": (_ROLES.index(role), info.order, estimator, place, _NOISE.index(noise)),
        })  # fmt: skip
    known.sort(key=lambda line: line["order"])
    lines = pd.DataFrame(known, columns=[*_KEYS, "name", "label", "line", "look"])
    return cells.merge(lines.rename_axis("rank").reset_index(), on=_KEYS, how="left")


def _with_shared_limits(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells with those at ε = 1,000 for each calibration of a method; one of them was run."""
    method, at_limit = ["panel", "estimator", "form"], cells["epsilon"] == LIMIT
    calibrations = cells.loc[~at_limit, [*method, "calibration"]].drop_duplicates()
    place = [*method, "metric", "n", "s", "steps", "delta_rule"]
    limits = cells[at_limit].drop_duplicates(place).drop(columns="calibration").reset_index()
    shared = limits.merge(calibrations, on=method).set_index("index")[cells.columns]
    return pd.concat([cells[~at_limit], shared]).sort_index(kind="stable") if len(shared) else cells


def _is_unprotected(cells: pd.DataFrame) -> pd.Series:
    """Return which cells prove no finite ε; at ε = 1,000, those of methods that prove none anywhere."""
    method, at_limit = ["panel", "estimator", "calibration", "form"], cells["epsilon"] == LIMIT
    facts = cells[method].assign(
        bare=(cells["certified"] == math.inf) & ~at_limit, proved=np.isfinite(cells["certified"]) & ~at_limit
    )
    anywhere = facts.groupby(method)[["bare", "proved"]].transform("any")
    return facts["bare"] | (at_limit & anywhere["bare"] & ~anywhere["proved"])


def place(table: pd.DataFrame, page: StudyPage) -> pd.DataFrame:
    """Add the place on the horizontal axis, ``x``, to rows of the results table or of its summary.

    Where that is the number of steps, a row without steps is repeated at every number of its panel.
    """
    table = table.assign(x=table[page.axis.column].astype("float64") if len(table) else [])
    if page.axis.column != "steps" or table.empty:
        return table
    parts = []
    for _, panel in table.groupby("panel", sort=False):
        axis = pd.DataFrame({"x": sorted(panel["x"].dropna().unique())})
        flat = panel[panel["x"].isna()].drop(columns="x").merge(axis, how="cross")
        parts += [panel.dropna(subset="x"), flat]
    return pd.concat(parts, ignore_index=True)


def errors_of(cells: pd.DataFrame, page: StudyPage) -> pd.DataFrame:
    """Return the cells of the headline's metric, with their place ``x`` on the horizontal axis."""
    return place(cells[cells["metric"] == page.metric], page)


def is_private(cells: pd.DataFrame) -> pd.Series:
    """Return which cells are of private estimators, including those without a proved ε."""
    return cells["role"].isin(("private", "unprotected"))


def rows_at(errors: pd.DataFrame, where: Setting) -> list[Row]:
    """Return the rows of a setting, and those without privacy, of its panel or of none, by line and size."""
    private = is_private(errors)
    in_panel = errors["panel"] == where.panel
    fixed = in_panel & (errors["epsilon"] == where.epsilon)
    if where.epsilon != LIMIT:  # such cells have one rule for δ
        fixed &= errors["delta_rule"] == where.delta_rule
    elsewhere = (errors["panel"] == "") & ~errors["estimator"].isin(errors.loc[in_panel, "estimator"])
    rows = errors[(private & fixed) | (~private & (in_panel | elsewhere))]
    return list(rows.sort_values(["rank", "x"], kind="stable").itertuples())


def lines_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each line, in their order."""
    return [list(line) for _, line in groupby(rows, key=lambda row: row.rank)]


def settings_of(errors: pd.DataFrame, page: StudyPage) -> list[Setting]:
    """Return every setting that holds private rows: the headline's first, then by panel, δ and ε.

    The headline's is the one that the study asks for, or the nearest that ran.
    """
    settings = {
        Setting(*key) for key in errors.loc[is_private(errors), _BUDGET].itertuples(index=False, name=None)
    }
    settings = {each for each in settings if each.epsilon < LIMIT} or settings
    if not settings:
        return []
    epsilon = nearest_value((each.epsilon for each in settings), float(page.headline["epsilon"]))
    panels = panels_of(errors, page)
    rules = _head_first(errors.loc[is_private(errors), "delta_rule"], page.headline.get("delta_rule"))
    head = Setting(cast(float, epsilon), rules[0], panels[0])

    def order(each: Setting) -> tuple[Any, ...]:
        return each != head, panels.index(each.panel), rules.index(each.delta_rule), each.epsilon

    return sorted({head, *settings}, key=order)


def panels_of(errors: pd.DataFrame, page: StudyPage) -> list[str]:
    """Return every panel with a private estimator; the headline's first."""
    return _head_first(errors.loc[is_private(errors), "panel"], page.headline.get("panel"))


def _head_first(values: Iterable[str], head: object) -> list[str]:
    return sorted(dict.fromkeys(map(str, values)), key=lambda value: value != head)


def size_at(rows: Sequence[Row], page: StudyPage) -> float | None:
    """Return the size of private rows that is nearest to the one that the headline asks for."""
    private = (row.x for row in rows if row.role in ("private", "unprotected"))
    return nearest_value(private, float(page.headline["n"]))


def nearest_value(values: Iterable[float], target: float) -> float | None:
    """Return the value whose logarithm is nearest to that of the wanted one, the smaller of two."""
    return min(map(float, values), key=lambda v: (round(abs(math.log(v / target)), 9), v), default=None)


def repetitions(errors: pd.DataFrame) -> tuple[int, int]:
    """Return the smallest and the largest number of repetitions of a cell."""
    private = errors[is_private(errors)]
    rows = private if len(private) else errors
    counts = rows["n_ok"] + rows["n_failed"]
    return (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
