"""The third law: changes of a table that change no answer, or change it in a known way."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tests.oracle.recipes import Table

Question = tuple[Any, Table]  # a recipe and its table
PLAIN = {"people": "rows", "weights": "none", "offset": "none", "entry": "none", "missing": "none"}
OF_X = re.compile(r"(coef|log HR|submodel|gaussian|logistic|poisson) x\b")
MOVED = re.compile(r"(mean|SD|median|t_test) x|Intercept|log baseline|restricted")  # in other units
ROWS = re.compile("predict")  # at other rows if these have another order
OF_ROWS = re.compile("predict|median")  # there is no median of people


def units(r: Any, t: Table) -> tuple[Question, Question]:
    """Covariates and times in other units."""
    (low, high), f, days = t.bounds["x"], t.frame, 365.25 if r.times != "whole" else 1.0
    other = f.assign(x=37 - 250 * f.x, t=f.t * days, start=f.start * days)
    bounds = t.bounds | {"x": (37 - 250 * high, 37 - 250 * low)}
    return (r, t), (r, replace(t, frame=other, bounds=bounds, periods=[days * each for each in t.periods]))


def order(r: Any, t: Table) -> tuple[Question, Question]:
    """Rows and terms in another order, and a column that no term uses."""
    mixed = t.frame.sample(frac=1, random_state=1).reset_index(drop=True).assign(other=np.nan)
    return (r, t), (r, replace(t, frame=mixed, right="g + z + x"))


def renamed(r: Any, t: Table) -> tuple[Question, Question]:
    """Other names of levels."""
    names = {each: f"{each}0" for each in map(str, t.levels["g"])}
    plain = replace(t, frame=t.frame.assign(g=t.frame.g.astype(str)), levels=t.levels | {"g": [*names]})
    other = replace(t, frame=t.frame.assign(g=plain.frame.g.map(names)))
    return (r, plain), (r, replace(other, levels=t.levels | {"g": [*names.values()]}))


def halved(r: Any, t: Table) -> tuple[Question, Question]:
    """Each row twice at half its weight."""
    r, f = (
        replace(r, people="two each", weights="mild"),
        t.frame.assign(person=np.arange(len(t.frame)), w=1.0),
    )
    return (r, replace(t, frame=f)), (r, replace(t, frame=pd.concat([f, f], ignore_index=True).assign(w=0.5)))


def split(r: Any, t: Table) -> tuple[Question, Question]:
    """A follow-up in two rows."""
    return (replace(r, entry="late"), t), (replace(r, entry="split"), t)


@dataclass(frozen=True)
class Change:
    """A change of a table, and what it does to estimates; ``doors``: all, if none is named."""

    questions: Callable[[Any, Table], tuple[Question, Question]]
    moved: re.Pattern[str] = re.compile(r"(?!)")  # the names of estimates that it moves
    old_name: Callable[[str], str] = str
    scale_of_x: float = 1.0
    doors: tuple[str, ...] = ()

    def scale_of(self, name: str) -> float | None:
        """Return by how much the change multiplies an estimate; None if it gives another one."""
        return None if self.moved.search(name) else self.scale_of_x if OF_X.match(name) else 1.0


CHANGES = (
    Change(units, MOVED, scale_of_x=-1 / 250),
    Change(order, ROWS),
    Change(renamed, old_name=lambda name: re.sub(r"\b(\w+)0\b", r"\1", name)),
    Change(halved, OF_ROWS, doors=("ols", "logit", "poisson", "table_one", "sklearn", "means")),
    Change(split, doors=("phreg",)),
)
