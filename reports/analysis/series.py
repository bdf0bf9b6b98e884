"""Groups the rows of a results table into plotted series: settings, series, points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import pandas as pd

from reports.page import ZERO, EstimatorInfo, StudyPage

CALIBRATION_WORDS = {"tight": "tight noise", "paper": "printed noise"}
BRIEF_WORDS = {"tight": "tight", "paper": "printed"}

_ROUNDING = 1e-12  # relative; a spread below it is that of rounding


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
    def answered(self) -> bool:
        """Whether any repetition gave a finite answer."""
        return self.n_ok > 0 and math.isfinite(self.mean)


@dataclass(frozen=True)
class Series:
    """One line: estimator × calibration × form; `role` is "private", "unprotected" (a private
    estimator whose events prove no finite ε), "nonprivate" or "zero"."""

    info: EstimatorInfo
    calibration: str
    form: str
    role: str
    form_index: int
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        """Name without the noise: "AdaSSP", "Noisy gradient descent (residual-clipped)"."""
        return f"{self.info.label} ({self.form})" if self.form else self.info.label

    @property
    def label(self) -> str:
        """Name with the noise: "AdaSSP, printed noise"."""
        words = CALIBRATION_WORDS.get(self.calibration)
        return f"{self.name}, {words}" if words else self.name

    @property
    def brief(self) -> str:
        """Name for a line's end: "AdaSSP, printed"."""
        words = BRIEF_WORDS.get(self.calibration)
        return f"{self.name}, {words}" if words else self.name

    @property
    def full(self) -> str:
        """Name for sentences, the title written out: "Preconditioned regression, tight noise"."""
        words = CALIBRATION_WORDS.get(self.calibration, "")
        return ", ".join(part for part in (self.info.title, self.form, words) if part)

    def at(self, x: float) -> Point | None:
        """Return the point at a size, if the cell ran."""
        return next((p for p in self.points if p.x == x), None)

    def mean_at(self, x: float) -> float:
        """Return the mean error at a size; NaN where there is none."""
        point = self.at(x)
        return point.mean if point is not None and point.answered else math.nan


@dataclass(frozen=True)
class View:
    """The summary of a study's headline metric, with the words of its page.

    Attributes
    ----------
    page : StudyPage
    table : DataFrame
        `summarize`'s rows of the headline metric with the columns `role` and `x` added.
    """

    page: StudyPage
    table: pd.DataFrame

    @classmethod
    def build(cls, summary: pd.DataFrame, page: StudyPage) -> View:
        """Combine the page's records with the summary of the headline metric."""
        table = summary[summary["metric"] == page.metric].reset_index(drop=True).copy()
        table = place(table, page)
        facts = zip(table["estimator"], table["privacy_model"], table["estimator_epsilon"], strict=True)
        table["role"] = [_role(name, model, certified) for name, model, certified in facts]
        return cls(page, table)

    @cached_property
    def private(self) -> pd.DataFrame:
        """The rows of private estimators, including those without a proved ε."""
        return self.table[self.table["role"].isin(("private", "unprotected"))]

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """Every requested ε, ascending."""
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
    def sizes(self) -> tuple[float, ...]:
        return tuple(sorted({float(x) for x in self.table["x"]}))

    @cached_property
    def headline(self) -> Setting | None:
        """The headline's setting, or the nearest one that the table holds; None without private rows."""
        if self.private.empty:
            return None
        asked = float(self.page.headline.get("epsilon", 0.5))
        nearest = min(self.epsilons, key=lambda e: (abs(math.log(e / asked)), e))
        return Setting(nearest, self.rules[0], self.panels[0])

    @cached_property
    def headline_size(self) -> float | None:
        """The headline's size: the one on its panel's grid that is nearest to the requested one."""
        return None if self.headline is None else self.size_at(self.headline)

    def size_at(self, setting: Setting) -> float | None:
        """Return the size of a setting nearest to the one that the headline asks for."""
        sizes = sorted({float(x) for x in self._rows(setting)["x"]})
        asked = float(self.page.headline.get("n", sizes[-1] if sizes else 1))
        return min(sizes, key=lambda x: (abs(math.log(x / asked)), x), default=None)

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Every setting that holds private rows; the headline's first, then by panel, δ and ε."""
        found = [
            Setting(e, r, p)
            for p in self.panels
            for r in self.rules
            for e in self.epsilons
            if Setting(e, r, p) in self._by_setting
        ]
        return tuple(sorted(found, key=lambda s: s != self.headline))

    def nearest(self, panel: str) -> Setting | None:
        """Return the setting of a panel that is nearest to the headline's."""
        head = self.headline
        found = [s for s in self.settings if s.panel == panel]
        if head is None or not found:
            return None
        return min(
            found, key=lambda s: (s.delta_rule != head.delta_rule, abs(math.log(s.epsilon / head.epsilon)))
        )

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

    @cached_property
    def _series(self) -> dict[Setting | None, tuple[Series, ...]]:
        return {}

    def series(self, setting: Setting | None) -> tuple[Series, ...]:
        """Return every line of a setting: private ones by catalog order, then non-private, then zero."""
        if setting not in self._series:
            self._series[setting] = self._made_series(setting)
        return self._series[setting]

    def _made_series(self, setting: Setting | None) -> tuple[Series, ...]:
        rows = [] if setting is None else [self._rows(setting)]
        panel = setting.panel if setting else ""
        for others in self._without:
            fitting = others[others["panel"] == panel]
            rows.append(fitting if len(fitting) else others[others["panel"] == ""])
        if not rows:
            return ()
        out = []
        keys = ["estimator", "calibration", "form", "role"]
        for (name, calibration, form, role), frame in pd.concat(rows).groupby(keys, sort=False):
            info = self.page.estimator(str(name))
            forms = self.forms.get(str(name), ("",))
            points = tuple(_point(row) for row in frame.sort_values("x").itertuples())
            out.append(Series(info, str(calibration), str(form), str(role), forms.index(str(form)), points))
        rank = {"private": 0, "unprotected": 1, "nonprivate": 2, "zero": 3}
        noise = {"tight": 0, "paper": 1}
        return tuple(
            sorted(
                out,
                key=lambda s: (
                    rank[s.role],
                    s.info.order,
                    s.info.name,
                    s.form_index,
                    noise.get(s.calibration, 2),
                ),
            )
        )

    @cached_property
    def forms(self) -> dict[str, tuple[str, ...]]:
        """The forms of each estimator, the plain one first."""
        grouped = self.table.groupby("estimator", sort=False)["form"]
        return {str(name): tuple(sorted({str(f) for f in forms})) for name, forms in grouped}

    @cached_property
    def repetitions(self) -> tuple[int, int]:
        """The smallest and the largest number of repetitions of a private cell."""
        rows = self.private if not self.private.empty else self.table
        counts = rows["n_ok"] + rows["n_failed"]
        return (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)


def place(table: pd.DataFrame, page: StudyPage) -> pd.DataFrame:
    """Add the place on the horizontal axis, ``x``, to rows of the results table or of its summary.

    Where that is the number of steps, a row without steps is repeated at every number of its panel.
    """
    table = table.assign(x=table[page.x_column].astype("float64") if len(table) else [])
    if page.x_column != "steps":
        return table
    parts = []
    for _, panel in table.groupby("panel", sort=False):
        axis = pd.DataFrame({"x": sorted(panel["x"].dropna().unique())})
        flat = panel[panel["x"].isna()].drop(columns="x").merge(axis, how="cross")
        parts += [panel.dropna(subset="x"), flat]
    return pd.concat(parts, ignore_index=True) if parts else table


def _role(name: str, model: str, certified: float) -> str:
    if name == ZERO:
        return "zero"
    if model == "none":
        return "nonprivate"
    return "unprotected" if certified == math.inf else "private"


def _head_first(values: Iterable[str], head: object) -> tuple[str, ...]:
    found = list(dict.fromkeys(str(v) for v in values))
    return tuple(sorted(found, key=lambda v: (v != head, found.index(v))))


def _point(row: object) -> Point:
    def get(name: str) -> float:
        return float(getattr(row, name))

    mean, se = get("mean"), get("se")
    return Point(
        x=get("x"),
        n=get("n"),
        mean=mean,
        se=0.0 if se < _ROUNDING * abs(mean) else se,
        q10=get("q10"),
        q90=get("q90"),
        n_ok=int(get("n_ok")),
        n_failed=int(get("n_failed")),
        certified=get("estimator_epsilon"),
        audited=get("audited_epsilon"),
        delta=get("delta"),
        status=str(getattr(row, "status", "ok")),
        message=str(getattr(row, "message", "")),
        cell=str(getattr(row, "cell", "")),
    )
