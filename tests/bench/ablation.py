"""What each part of the own estimator is worth: errors without it over errors with it.

Groups and errors are those of :mod:`tests.bench.development_cells`. A ratio is the geometric mean over the
cells of a group. Part and whole have the same rows and the same seeds.
"""

import warnings
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from dpalgos.central.preconditioned import estimator, intercept, plan, steps, whitening
from dpalgos.models import newton_steps
from tests.bench.development_cells import Errors, means_by_group, measured_cells, names_above
from tests.bench.goals import Measurement

SMALL, MOST = "today/progression//inf/1", 100  # ratios above it are not compared


def last_alone(steps: Any, *_: float) -> np.ndarray:
    """The weight of the last step is 1."""
    return np.append(np.zeros(len(steps.points) - 1), 1.0)


NEVER = lambda *_, **__: False  # noqa: E731
PARTS: dict[str, list[tuple[Any, str, Any]]] = {  # part → what replaces it
    "a second whitening": [(whitening.Whitening, "needs_another", NEVER)],
    "further whitenings in wrong units": [(whitening, "N_WHITENINGS", 1)],
    "centers of the columns": [(plan, "_origin", lambda _: {})],
    "curvatures that scores correct": [(steps.Steps, "_scales", lambda self, *_: self.scales)],
    "the intercept again if events are few": [(intercept.Start, "hides_slopes", NEVER)],
    "the intercept alone if rows are few": [(plan, "_FEWEST", dict.fromkeys(plan._FEWEST, (0.0, 0.0)))],
    "no slopes if steps show none": [(plan.Numbers, "may_omit_slopes", False)],
    "slopes shrunk to their posterior mean": [(steps, "posterior_kept", lambda *_: 1.0)],
    "the combination of steps": [(newton_steps, "combination_weights", last_alone)],
    "rows shortened to their reach": [(estimator, "largest_length", lambda *_: np.inf)],
}


def without(part: str, only: str) -> dict[str, Errors]:
    """Return the errors of all cells without a part."""
    with ExitStack() as stack:
        for owner, name, value in PARTS[part]:
            stack.enter_context(patch.object(owner, name, value))
        return measured_cells(only)


def facts_of_part(whole: dict[str, Errors], other: dict[str, Errors]) -> dict[str, str]:
    """Return the mean ratio of each group, the largest one, and how many cells are above the constant."""
    ratios = {name: other[name].mean / errors.mean for name, errors in whole.items()}
    facts = {group: shown(ratio) for group, ratio in means_by_group(ratios).items()}
    return {**facts, "worst": shown(max(ratios.values())), "above": str(len(names_above(other)))}


def shown(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < MOST else f"> {MOST}"


def bench_ablation(small: bool = False) -> Measurement:
    """Fit without each part; the smallest size is one cell of a table of scikit-learn."""
    only = SMALL if small else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of seeds, and of columns that noise hides
        whole = measured_cells(only)
        others = {part: without(part, only) for part in PARTS}
    facts: dict[str, str] = {"cells": str(len(whole)), "above": str(len(names_above(whole)))}
    for part, other in others.items():
        facts |= {f"{part}/{what}": fact for what, fact in facts_of_part(whole, other).items()}
    return Measurement(
        figure=f"{len(PARTS)} parts left out of {len(whole)} cells",
        goals=[],
        data="development tables",
        facts=facts,
    )
