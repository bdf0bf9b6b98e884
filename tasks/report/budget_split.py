"""How each private estimator of a study splits its budget, found by running it on made-up numbers.

The split follows from the parameters alone, never from data.
"""

import numpy as np

import dpalgos
from dpalgos.accounting.composition import budget_shares
from tasks.rules import delta_at
from tasks.study.panel import EstimatorSpec
from tasks.study.spec import StudySpec


def budget_split(spec: StudySpec) -> dict[tuple[str, str], dict[str, float]]:
    """Return the share of the budget per kind of release, for each estimator and form.

    It is taken at the headline's ε and δ, with tight calibration where the study has it. Where panels share
    an estimator, it is that of the headline's panel.
    """
    split: dict[tuple[str, str], dict[str, float]] = {}
    for panel in sorted(spec.panels, key=lambda panel: panel.name != spec.headline.panel):
        grid = spec.grid_of(panel)
        sizes = {**panel.problem.sizes(max(grid.n)), **({"s": max(grid.s)} if grid.s else {})}
        for estimator in spec.estimators_of(panel):
            name = (estimator.name, estimator.form)
            if estimator.calibrations and name not in split:
                split[name] = _shares(spec, estimator, sizes, spec.task_of(panel))
    return split


def _shares(spec: StudySpec, estimator: EstimatorSpec, sizes: dict[str, int], task: str) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, sizes["d"])), rng.integers(0, 2, 50)  # responses to every model
    delta = delta_at(spec.headline.delta, spec.headline.n)
    keywords = estimator.keywords(sizes, max(estimator.steps, default=None))
    if dpalgos.get_estimator(estimator.name).unit_of_privacy == "user":
        keywords["range_failure"] = 1.0  # too few to find any range
    result = dpalgos.estimate(
        estimator.name,
        dpalgos.Sample(X, None if task == "mean" else y, public_rows=X, user_ids=np.arange(50)),
        rng=rng,
        epsilon=spec.headline.epsilon,
        delta=delta,
        calibration="tight" if "tight" in estimator.calibrations else estimator.calibrations[0],
        **keywords,
    )
    return budget_shares(result.events, delta)
