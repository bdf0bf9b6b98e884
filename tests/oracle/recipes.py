"""Recipes of tables: a few words that Hypothesis shrinks, from which a table of any size is drawn.

Hypothesis draws the recipe, never the rows. The first value of each field is the plain one. So a minimal
counterexample differs from the plain table in as few fields as possible, at the fewest rows.
"""

from dataclasses import dataclass, make_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

RIGHT = "x + z + g"
FIELDS: dict[str, tuple[Any, ...]] = {
    "n": (1000, 500, 2000, 4000),
    "seed": (0, 1, 2, 3),
    "x": ("normal", "skewed", "heavy", "whole", "far", "tiny", "constant", "collinear", "two values"),
    "g": ("even", "rare", "many", "empty level", "codes"),
    "y": ("normal", "skewed", "heavy", "dependent", "outliers", "whole", "far", "exact", "constant"),
    "events": ("usual", "rare", "frequent", "separated"),
    "counts": ("usual", "large", "few", "overdispersed", "uneven", "zeros"),
    "bounds": ("fit", "×10", "×1000", "narrow 1%", "narrow 15%"),
    "units": ("public", "centered"),
    "missing": ("none", "x", "g"),
    "people": ("rows", "two each", "unequal", "ill come often"),
    "weights": ("none", "mild", "steep", "zeros"),
    "offset": ("none", "mild", "wide"),
    "times": ("fine", "tied", "whole", "all late", "early", "beyond", "zeros"),
    "entry": ("none", "late", "split", "changing", "recurrent", "gaps"),
    "order": ("as drawn", "sorted", "duplicated"),
    "target": ("least squares", "robust"),
    "effect": ("linear", "curved"),
}

# What a table looks like: a field for each of FIELDS, whose default is the plain value.
Recipe = make_dataclass("Recipe", [(name, Any, values[0]) for name, values in FIELDS.items()], frozen=True)
Recipe.__repr__ = lambda own: f"Recipe({', '.join(f'{k}={v!r}' for k, v in odd_fields(own).items())})"


def odd_fields(recipe: Any) -> dict[str, Any]:
    """Return the fields that are not plain."""
    return {name: own for name, values in FIELDS.items() if (own := getattr(recipe, name)) != values[0]}


def recipes(*used: str, most: int, sizes: tuple[int, ...] = FIELDS["n"]) -> Any:
    """Return the strategy of recipes in which at most so many of the named fields are not plain."""
    size = st.fixed_dictionaries({"n": st.sampled_from(sizes), "seed": st.sampled_from(FIELDS["seed"])})
    odd = st.one_of([st.tuples(st.just(name), st.sampled_from(FIELDS[name][1:])) for name in used])
    chosen = st.lists(odd, max_size=most, unique_by=lambda pair: pair[0])
    return st.builds(lambda plain, pairs: replace(Recipe(**plain), **dict(pairs)), size, chosen)


def singles(*used: str) -> list[Any]:
    """Return the plain recipe, and those that differ from it in one of the named fields."""
    return [Recipe(), *(Recipe(**{name: value}) for name in used for value in FIELDS[name][1:])]


@dataclass(frozen=True)
class Table:
    """A drawn table with its public declarations."""

    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[Any]]
    impute: dict[str, Any]
    units: dict[str, dict[str, float]]
    periods: list[float]
    right: str = RIGHT

    def of(self, *names: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the declarations of some columns, by keyword."""
        kinds = {"bounds": self.bounds, "levels": self.levels, "impute": self.impute, **self.units}
        declared = {k: {n: v for n, v in each.items() if n in names} for k, each in kinds.items()}
        return {kind: each for kind, each in declared.items() if each and kind not in without}


@lru_cache(maxsize=2)
def table_of(r: Any) -> Table:
    """Draw the table of a recipe; the same recipe always gives the same rows."""
    rng = np.random.default_rng([r.seed, 77])
    person = _persons(r, rng)
    n = len(person)
    frailty = rng.normal(0, 0.4, person.max() + 1)[person] * (r.people != "rows")
    z0 = rng.normal(0, 1, n)
    drawn = {"normal": z0, "skewed": np.exp(z0) - 1, "heavy": rng.standard_t(3, n), "whole": np.round(2 * z0)}
    drawn |= {"far": 1e6 + 100 * z0, "tiny": 1e-6 * z0, "constant": np.full(n, 2.0), "collinear": z0}
    x = drawn.get(r.x, np.where(z0 > 1, 1.0, 0.0))
    z = rng.normal(0, 1, n) + 0.3 * z0
    z = x + 1e-5 * z if r.x == "collinear" else z
    names = {"many": list("abcdefghij"), "codes": [1, 2, 3]}.get(r.g, ["a", "b", "c"])
    shares = {"rare": [0.6, 0.39, 0.01], "empty level": [0.5, 0.5, 0]}.get(r.g, [1 / len(names)] * len(names))
    code = rng.choice(len(names), n, p=shares)
    u = (x - x.mean()) / max(x.std(), 1e-12) if r.effect == "linear" else np.exp(z0) / 2
    linear = 0.5 * u - 0.3 * z * (r.x != "collinear") + 0.4 * (code == 1) + frailty
    y = linear + _errors(r, rng, z0)
    exact = 2 * z0 + 1.0 * (code == 1)
    y = {"whole": np.round(y), "far": 1e5 + y, "exact": exact, "constant": 0 * y + 3}.get(r.y, y)
    shift = {"usual": -0.4, "rare": -4.0, "frequent": 2.5, "separated": 0.0}[r.events]
    slope = 40.0 if r.events == "separated" else 1.0
    event = (rng.random(n) < 1 / (1 + np.exp(-np.clip(slope * (linear + shift), -30, 30)))).astype(int)
    days = {"mild": rng.uniform(0.5, 2, n), "wide": np.exp(rng.uniform(-3, 3, n))}.get(r.offset, np.ones(n))
    mean = np.exp(0.5 * linear + {"large": 3.5, "few": -3.0}.get(r.counts, 0.3)) * days
    spread = {"overdispersed": np.full(n, 0.7), "uneven": np.where(code == 1, 0.4, 3.0)}.get(r.counts)
    mean = mean if spread is None else mean * rng.gamma(spread, 1 / spread)
    count = rng.poisson(mean) * (rng.random(n) < (0.5 if r.counts == "zeros" else 1.1))
    w = {"mild": rng.uniform(0.5, 1, n), "steep": rng.uniform(0, 1, n) ** 3, "zeros": rng.random(n) < 0.6}
    f = pd.DataFrame({"person": person, "x": x, "z": z, "g": np.array(names, dtype=object)[code]})
    f = f.assign(y=y, b=event, c=count, w=1.0 * w.get(r.weights, np.ones(n)), days=days)
    f["start"], f["t"], f["e"], periods = _times(r, rng, linear)
    f["stage"] = np.where(f.b == 1, "ill", "well")
    bounds = _all_bounds(r, f) | {"t": (0.0, periods[-1])}
    if r.missing != "none":
        lost = rng.random(n) < 0.2
        f[r.missing] = f[r.missing].where(~lost, None if r.missing == "g" else np.nan)
    impute = {"x": {"x": float(np.mean(bounds["x"]))}, "g": {"g": names[0]}}.get(r.missing, {})
    if r.order == "sorted":
        f = f.sort_values("y", kind="stable")
    if r.order == "duplicated":
        f = pd.concat([f, f.assign(person=f.person + f.person.max() + 1)])
    levels = {"g": names, "stage": ["well", "ill"]}
    units = {"center": {"z": 0.5}, "scale": {"z": 2.0, "x": float(np.ptp(bounds["x"])) / 5}}
    units = units if r.units == "centered" else {}
    return Table(f.reset_index(drop=True), bounds, levels, impute, units, periods)


def _persons(r: Any, rng: np.random.Generator) -> np.ndarray:
    counts = {"two each": 2, "unequal": rng.integers(1, 6, r.n), "ill come often": 1 + rng.poisson(1, r.n)}
    return np.repeat(np.arange(r.n), counts.get(r.people, 1))


def _errors(r: Any, rng: np.random.Generator, z0: np.ndarray) -> np.ndarray:
    error = rng.normal(0, 1, len(z0))
    skewed = np.exp(error) - np.exp(0.5)
    far = error + 30 * (rng.random(len(z0)) < 0.01)
    drawn = {"skewed": skewed, "heavy": rng.standard_t(3, len(z0)), "dependent": skewed * np.exp(0.3 * z0)}
    return {**drawn, "outliers": far}.get(r.y, error)


def _all_bounds(r: Any, f: pd.DataFrame) -> dict[str, tuple[float, float]]:
    bounds = {name: _bounds(r, f[name].to_numpy(float)) for name in ("x", "z", "y")}
    share = {"narrow 1%": 0.01, "narrow 15%": 0.15}.get(r.bounds, 0.0)
    largest = max(np.quantile(f.c, 1 - share), 1) * (10 if "×" in r.bounds else 1)
    days = {"none": (0.5, 1.5), "mild": (0.5, 2.0), "wide": (0.04, 21.0)}[r.offset]
    return bounds | {"c": (0.0, float(np.ceil(largest))), "days": days, "b": (0.0, 1.0)}


def _bounds(r: Any, values: np.ndarray) -> tuple[float, float]:
    """Return bounds as somebody would state them: around the values, too wide, or too narrow."""
    share = {"narrow 1%": 0.01, "narrow 15%": 0.15}.get(r.bounds, 0.0)
    low, high = map(float, np.quantile(values, [share / 2, 1 - share / 2]))
    if share:
        return (low, high) if low < high else (low - 0.5, high + 0.5)
    wide = {"×10": 10, "×1000": 1000}.get(r.bounds, 1.1)
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-9 if high != low else 1.0)
    return middle - wide * half, middle + wide * half


def _times(r: Any, rng: np.random.Generator, linear: np.ndarray) -> tuple[Any, Any, Any, list[float]]:
    n = len(linear)
    hazard = 0.3 * np.exp(0.5 * linear) * (10 if r.times == "early" else 1)
    event, censored = rng.exponential(1 / hazard), rng.uniform(1, 6, n)
    start, periods = np.zeros(n), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
    if r.entry in ("late", "gaps"):
        start = rng.uniform(0, 1, n) if r.times != "whole" else 1.0 * rng.integers(0, 2, n)
        event, censored = start + event, start + censored
    if r.times == "all late":
        event, censored = 3 + event / 4, 3 + censored / 4
    e, t = (event <= censored).astype(int), np.minimum(event, censored)
    t = {"tied": np.ceil(t * 4) / 4, "whole": np.ceil(t), "beyond": t * 3}.get(r.times, t)
    t = np.where(rng.random(n) < 0.1, 0.0, t) if r.times == "zeros" else t
    return start, t, e, [0.0, 1.0, 2.0, 3.0, 4.0] if r.times == "whole" else periods
