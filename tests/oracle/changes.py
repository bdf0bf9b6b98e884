"""The third law: changes of a table that change no answer, or change it in a known way."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpalgos import formula as private
from dpalgos.errors import AccuracyWarning, InputError
from tests.oracle.formulas import FAMILY, RIGHT, budget
from tests.oracle.recipes import Recipe, Table, table_of
from tests.oracle.times import followed

Answers = dict[str, tuple[float, float]]  # estimates and half-widths by name
PLAIN = {"people": "rows", "weights": "none", "offset": "none", "entry": "none", "missing": "none"}
PART = 0.1  # of a half-width, by which an estimate may change


def _fit(kind: str, t: Table, right: str = RIGHT, **more: Any) -> Answers:
    left, options = "Surv(start, t, e)" if "user" in more else "Surv(t, e)", budget(1e6, 0) | more
    used = ["x", "z", "g"]
    if kind == "phreg":
        options["periods"] = t.periods
    else:
        left = FAMILY[kind][1]
        used += [left] * (kind != "logit")
        options |= {"interval_target": "least squares"} if kind == "ols" else {}
    table = getattr(private, kind)(f"{left} ~ {right}", t.frame, **t.of(*used), **options).table()
    rows = table[~table.term.str.contains("period")].itertuples()
    return {row.term: (row.estimate, (row.ci_high - row.ci_low) / 2) for row in rows}


def units(kind: str, t: Table) -> tuple[Answers, Answers]:
    """Covariates and times in other units: their coefficients change by the unit."""
    (low, high), f = t.bounds["x"], t.frame
    other = f.assign(x=37 - 250 * f.x, t=f.t * 365.25, start=f.start * 365.25)
    bounds = t.bounds | {"x": (37 - 250 * high, 37 - 250 * low)}
    moved = replace(t, frame=other, bounds=bounds, periods=[365.25 * each for each in t.periods])
    old, new = _fit(kind, t), _fit(kind, moved)
    new["x"] = (-250 * new["x"][0], 250 * new["x"][1])
    return _without(old, "Intercept"), new


def order(kind: str, t: Table) -> tuple[Answers, Answers]:
    """Rows and terms in another order, and a column that no term uses."""
    mixed = t.frame.sample(frac=1, random_state=1).reset_index(drop=True).assign(other=np.nan)
    return _fit(kind, t), _fit(kind, replace(t, frame=mixed), "g + z + x")


def renamed(kind: str, t: Table) -> tuple[Answers, Answers]:
    """Other names of levels."""
    names = {each: f"z{9 - k}" for k, each in enumerate(t.levels["g"])}
    other = replace(t, frame=t.frame.assign(g=t.frame.g.map(names)), levels={"g": list(names.values())})
    back = {f"g[T.{new}]": f"g[T.{old}]" for old, new in names.items()}
    return _fit(kind, t), {back.get(name, name): value for name, value in _fit(kind, other).items()}


def halved(kind: str, t: Table) -> tuple[Answers, Answers]:
    """Each row twice at half its weight; a follow-up in two rows."""
    f = t.frame.assign(person=np.arange(len(t.frame)), w=1.0)
    if kind == "phreg":
        plain = replace(t, frame=f)
        twice = followed(Recipe(entry="split"), plain)
        return _fit(kind, plain, user="person"), _fit(kind, replace(t, frame=twice), user="person")
    twice, more = pd.concat([f, f]).assign(w=0.5), {"user": "person", "weights": "w", "max_weight": 1.0}
    return _fit(kind, replace(t, frame=f), **more), _fit(kind, replace(t, frame=twice), **more)


def _without(answers: Answers, name: str) -> Answers:
    return {each: value for each, value in answers.items() if each != name}


CHANGES: tuple[Callable[[str, Table], tuple[Answers, Answers]], ...] = (units, order, renamed, halved)
CHANGED = (*FAMILY, "phreg")


def changed_faults(kind: str, recipe: Any) -> dict[str, str]:
    """Return the changes after which an estimate differs by more than a part of its half-width."""
    found: dict[str, str] = {}
    table = table_of(replace(recipe, **PLAIN))
    for change in CHANGES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                old, new = change(kind, table)
            except InputError:
                continue
        if any(issubclass(w.category, AccuracyWarning) for w in caught):
            continue
        for name, (value, half) in old.items():
            if abs(value - new[name][0]) > PART * half:
                found.setdefault(
                    change.__name__, f"{name}: {value:.6g} ± {half:.3g}, then {new[name][0]:.6g}"
                )
    return found
