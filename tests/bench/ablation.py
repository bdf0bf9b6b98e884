"""What each part of the own estimator is worth: errors without it over errors with it, on development tables.

The tables are those of the league on which estimators may be tuned. The error is the excess loss over that of
the best model, in units of what the columns explain. A ratio is the geometric mean over tables, repetitions
and three ε. Part and whole have the same seeds.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

import dpalgos
from data.collections.league import GROUPS, declarations, developed_on
from dpalgos.central.preconditioned import estimator, intercept, plan, steps, whitening
from dpalgos.models import newton_steps
from tests.bench.goals import Measurement
from tests.bench.league.whole_table import missed_of_regression
from tests.bench.unseen import prepared_table

EPSILONS, REPETITIONS = (0.3, 1.0, 3.0), 4
FAMILIES = {"linear": "gaussian", "logistic": "logistic", "counts": "poisson"}


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


def errors(tables: list[str], repetitions: int) -> Iterator[tuple[str, float]]:
    """Yield the group and the error of each fit."""
    for name in tables:
        about = declarations()[name]
        group = GROUPS[about.get("family", "")]
        _, prepared = prepared_table(name, about)
        missed = missed_of_regression(prepared.X, prepared.y, about.get("family", ""))
        for epsilon in EPSILONS:
            for seed in range(repetitions):
                fit = dpalgos.estimate(
                    "preconditioned_glm",
                    prepared.X,
                    prepared.y,
                    family=FAMILIES[group],
                    intercept=True,
                    epsilon=epsilon,
                    delta=len(prepared.X) ** -2.0,
                    rng=np.random.default_rng(seed),
                )
                yield group, max(float(missed(fit.estimate)), 1e-4)


def bench_ablation(small: bool = False) -> Measurement:
    """Fit without each part; the smallest size is one table of scikit-learn."""
    tables = [name for name in declarations() if developed_on(name)]
    tables, repetitions = (["progression"], 1) if small else (tables, REPETITIONS)
    whole = np.array([error for _, error in errors(tables, repetitions)])
    facts: dict[str, str] = {"tables": str(len(tables)), "fits": str(len(whole))}
    for part, replaced in PARTS.items():
        with ExitStack() as stack:
            for owner, name, value in replaced:
                stack.enter_context(patch.object(owner, name, value))
            groups, without = zip(*errors(tables, repetitions), strict=True)
        ratios = np.log(np.array(without) / whole)
        for group in sorted(set(groups)):
            own = ratios[np.array(groups) == group]
            facts[f"{part}/{group}"] = f"{np.exp(own.mean()):.2f}"
    return Measurement(
        figure=f"{len(PARTS)} parts left out of {len(whole)} fits",
        goals=[],
        data=", ".join(tables),
        facts=facts,
    )
