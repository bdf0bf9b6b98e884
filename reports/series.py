"""The rows of a results table as plotted series: settings, series, points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import cast

import numpy as np
import pandas as pd

from dpalgos.catalog import Estimator
from reports.page import ZERO, StudyPage
from reports.palette import Look, look
from reports.writing import with_form

CALIBRATION_WORDS = {"tight": "tight calibration", "paper": "paper's calibration"}
BRIEF_WORDS = {"tight": "tight", "paper": "paper's"}

_ROUNDING = 1e-12  # relative; a spread below it is that of rounding
_ROLES = ("private", "unprotected", "nonprivate", "zero")
_NOISE = ("tight", "paper", "none")


@dataclass(frozen=True, order=True)
class Setting:
    """The fixed values of a figure or a table: ε, the rule for δ, and the panel."""

    epsilon: float
    delta_rule: str
    panel: str


@dataclass(frozen=True)
class Point:
    """One cell: its place on the horizontal axis, its rows, and the summary of its repetitions."""

    x: float
    n: float
    mean: float
    se: float
    q10: float
    q90: float
    n_ok: int
    n_failed: int
    certified: float
    audited: float
    delta: float
    status: str
    message: str
    cell: str

    @property
    def error(self) -> float:
        """The standard error of the mean; 0 where a single repetition leaves it unknown."""
        return self.se if math.isfinite(self.se) else 0.0

    @property
    def answered(self) -> bool:
        """Whether any repetition gave a finite answer."""
        return self.n_ok > 0 and math.isfinite(self.mean)


_POINT_COLUMNS = [
    {"certified": "estimator_epsilon", "audited": "audited_epsilon"}.get(each.name, each.name)
    for each in fields(Point)
]


def comma(*parts: str | None) -> str:
    """Join the parts that are not empty: "AdaSSP, printed noise"."""
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Series:
    """One line: estimator × calibration × form; `role` is "private", "unprotected" (a private
    estimator whose events prove no finite ε), "nonprivate" or "zero"."""

    info: Estimator
    calibration: str
    form: str
    role: str
    form_index: int
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        """Name without the noise: "AdaSSP", "Noisy gradient descent (residual-clipped)"."""
        return with_form(self.info.title, self.form)

    @property
    def label(self) -> str:
        """Name with the noise: "AdaSSP, printed noise"."""
        return comma(self.name, CALIBRATION_WORDS.get(self.calibration))

    @property
    def brief(self) -> str:
        """Name for a line's end: "AdaSSP, printed"."""
        bare = "not private" if self.role == "unprotected" else None
        return comma(self.name, BRIEF_WORDS.get(self.calibration), bare)

    @property
    def rank(self) -> tuple[int, int, str, int, int]:
        """Its place among others: private ones by catalog order, then non-private, then zero."""
        noise = _NOISE.index(self.calibration)
        return _ROLES.index(self.role), self.info.order, self.info.name, self.form_index, noise

    @cached_property
    def look(self) -> Look:
        return look(self.role, self.info.order, self.form_index, self.calibration)

    def at(self, x: float) -> Point | None:
        return next((p for p in self.points if p.x == x), None)


@dataclass(frozen=True)
class View:
    """The summary of a study's headline metric, with the words of its page."""

    page: StudyPage
    table: pd.DataFrame  # rows of `summarize` with the columns role and x
    others: pd.DataFrame  # the rows of other metrics
    _series: dict[Setting | None, tuple[Series, ...]] = field(default_factory=dict)

    @classmethod
    def build(cls, summary: pd.DataFrame, page: StudyPage) -> View:
        """Combine the page's records with the summary of the headline metric."""
        of_headline = summary["metric"] == page.metric
        table = place(summary[of_headline].reset_index(drop=True), page)
        table["se"] = table["se"].mask(table["se"] < _ROUNDING * table["mean"].abs(), 0.0)
        return cls(page, with_roles(table), summary[~of_headline])

    @cached_property
    def private(self) -> pd.DataFrame:
        """The rows of private estimators, including those without a proved ε."""
        return self.table[self.table["role"].isin(("private", "unprotected"))]

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        return tuple(sorted({float(e) for e in self.private["epsilon"]}))

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """Every rule for δ; the headline's first."""
        return _head_first(self.private["delta_rule"], self.page.headline.get("delta_rule"))

    @cached_property
    def panels(self) -> tuple[str, ...]:
        """Every panel with a private estimator; the headline's first."""
        return _head_first(self.private["panel"], self.page.headline.get("panel"))

    @cached_property
    def headline(self) -> Setting | None:
        """The headline's setting, or the nearest one that the table holds; None without private rows."""
        if self.private.empty:
            return None
        epsilon = nearest_value(self.epsilons, float(self.page.headline["epsilon"]))
        return Setting(cast(float, epsilon), self.rules[0], self.panels[0])

    @cached_property
    def headline_size(self) -> float | None:
        """The size on the headline's panel that is nearest to the requested one."""
        return None if self.headline is None else self.size_at(self.headline)

    def size_at(self, setting: Setting) -> float | None:
        """Return the size of a setting nearest to the one that the headline asks for."""
        return nearest_value(self._rows(setting)["x"], float(self.page.headline["n"]))

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Every setting that holds private rows; the headline's first, then by panel, δ and ε."""
        found = [Setting(e, r, p) for p in self.panels for r in self.rules for e in self.epsilons]
        return tuple(sorted(filter(self._by_setting.__contains__, found), key=lambda s: s != self.headline))

    @cached_property
    def _by_setting(self) -> dict[Setting, pd.DataFrame]:
        groups = self.private.groupby(["epsilon", "delta_rule", "panel"], sort=False)
        return {Setting(cast(float, e), str(r), str(p)): rows for (e, r, p), rows in groups}

    def _rows(self, setting: Setting) -> pd.DataFrame:
        return self._by_setting.get(setting, self.private.iloc[:0])

    @cached_property
    def _without(self) -> tuple[pd.DataFrame, ...]:
        """The rows of each non-private estimator and of the zero vector."""
        rows = self.table[self.table["role"].isin(("nonprivate", "zero"))]
        return tuple(others for _, others in rows.groupby("estimator", sort=False))

    def series(self, setting: Setting | None) -> tuple[Series, ...]:
        """Return every line of a setting: private ones by catalog order, then non-private, then zero."""
        if setting not in self._series:
            self._series[setting] = self._build_series(setting)
        return self._series[setting]

    def _build_series(self, setting: Setting | None) -> tuple[Series, ...]:
        rows = [] if setting is None else [self._rows(setting)]
        for others in self._without:
            fitting = others[others["panel"] == (setting.panel if setting else "")]
            rows.append(fitting if len(fitting) else others[others["panel"] == ""])
        out = []
        keys = ["estimator", "calibration", "form", "role"]
        for (name, calibration, form, role), frame in (
            pd.concat(rows).groupby(keys, sort=False) if rows else ()
        ):
            points = frame.sort_values("x")[_POINT_COLUMNS].itertuples(index=False, name=None)
            index = self.forms[str(name)].index(str(form))
            info = self.page.estimator(str(name))
            found = tuple(Point(*point) for point in points)
            out.append(Series(info, str(calibration), str(form), str(role), index, found))

        return tuple(sorted(out, key=lambda s: s.rank))

    @cached_property
    def forms(self) -> dict[str, tuple[str, ...]]:
        grouped = self.table.groupby("estimator", sort=False)["form"]
        return {str(name): tuple(sorted({str(f) for f in forms})) for name, forms in grouped}

    @cached_property
    def repetitions(self) -> tuple[int, int]:
        rows = self.private if not self.private.empty else self.table
        counts = rows["n_ok"] + rows["n_failed"]
        return (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)


def nearest_value(values: Iterable[float], wanted: float) -> float | None:
    """Return the value whose logarithm is nearest to that of the wanted one, the smaller of two."""
    return min(map(float, values), key=lambda v: (abs(math.log(v / wanted)), v), default=None)


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


def with_roles(table: pd.DataFrame) -> pd.DataFrame:
    conditions = [
        table["estimator"] == ZERO,
        table["privacy_model"] == "none",
        table["estimator_epsilon"] == math.inf,
    ]
    roles = ["zero", "nonprivate", "unprotected"]
    return table.assign(role=np.select(conditions, roles, "private"))


def _head_first(values: Iterable[str], head: object) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(map(str, values)), key=lambda v: v != head))
