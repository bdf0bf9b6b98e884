"""The table of doors: each public question, and the fields of recipes that it uses."""

import warnings
from functools import partial
from typing import Any

import numpy as np

from dpalgos.errors import AccuracyWarning, InputError
from tests.oracle import columns, formulas, times
from tests.oracle.laws import Door, Outcome
from tests.oracle.recipes import Table, table_of

OF_ROWS = ("x", "g", "bounds", "missing")
DOORS: dict[str, tuple[Door, tuple[str, ...]]] = {
    "ols": (
        partial(formulas.regression, "ols"),
        (*OF_ROWS, "y", "units", "people", "weights", "order", "target", "effect"),
    ),
    "logit": (
        partial(formulas.regression, "logit"),
        (*OF_ROWS, "events", "units", "people", "weights", "order", "effect"),
    ),
    "poisson": (
        partial(formulas.regression, "poisson"),
        (*OF_ROWS, "counts", "people", "weights", "offset", "effect"),
    ),
    "phreg": (times.hazards, (*OF_ROWS, "times", "entry", "order", "effect")),
    "survival": (times.curves, ("g", "times", "missing", "order")),
    "table_one": (formulas.baseline, (*OF_ROWS, "counts", "events", "people", "order")),
    "sklearn": (columns.regressions, ("x", "y", "events", "counts", "bounds", "people", "weights")),
    "means": (columns.means, ("x", "y", "counts", "bounds", "people")),
}


def asked(
    door: str, recipe: Any, epsilon: float = 1e6, seed: int | None = None, table: Table | None = None
) -> Outcome:
    """Ask a door's questions of a recipe's table; refusals and cautions are part of the outcome."""
    # Each recipe has its own seed: one seed for all could decide whether any interval exists.
    seed = recipe.seed + 1 if seed is None else seed
    outcome = Outcome()
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            outcome.pairs = list(DOORS[door][0](recipe, table or table_of(recipe), epsilon, seed))
        except InputError as error:
            outcome.refused = str(error)
    outcome.cautions = [str(w.message) for w in caught if issubclass(w.category, AccuracyWarning)]
    return outcome
