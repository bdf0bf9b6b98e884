"""What private estimators release and how they split their budget, on made-up numbers: no data are read."""

import numpy as np

import dpalgos
from dpalgos.accounting.composition import budget_shares
from dpalgos.accounting.events import Event
from tasks.rules import delta_at
from tasks.study.panel import EstimatorSpec, Panel
from tasks.study.spec import StudySpec

_ROWS = 50


def budget_split(spec: StudySpec) -> dict[tuple[str, str], dict[str, float]]:
    """Return each estimator's and form's shares of the budget, in the headline's panel if it is there."""
    split: dict[tuple[str, str], dict[str, float]] = {}
    delta = delta_at(spec.headline.delta, spec.headline.n)
    for panel in sorted(spec.panels, key=lambda panel: panel.name != spec.headline.panel):
        for item in spec.estimators_of(panel):
            name = (item.name, item.form)
            if item.calibrations and name not in split:
                split[name] = budget_shares(released_events(spec, panel, item), delta)
    return split


def released_events(spec: StudySpec, panel: Panel, item: EstimatorSpec) -> tuple[Event, ...]:
    """Return what an estimator releases at the headline's ε and δ, with tight calibration where it has it."""
    grid, rng = spec.grid_of(panel), np.random.default_rng(0)
    sizes = {**panel.problem.sizes(max(grid.n)), **({"s": max(grid.s)} if grid.s else {})}
    X, y = rng.uniform(-1, 1, (_ROWS, sizes["d"])), rng.integers(0, 2, _ROWS)  # responses to every model
    keywords = item.keywords(sizes, max(item.steps, default=None))
    if dpalgos.get_estimator(item.name).unit_of_privacy == "user":
        keywords["range_failure"] = 1.0  # too few to find any range
    y_or_none = None if spec.task_of(panel) == "mean" else y
    result = dpalgos.estimate(
        item.name,
        dpalgos.Sample(X, y_or_none, public_rows=X, user_ids=np.arange(_ROWS)),
        rng=rng,
        epsilon=spec.headline.epsilon,
        delta=delta_at(spec.headline.delta, spec.headline.n),
        calibration="tight" if "tight" in item.calibrations else item.calibrations[0],
        **keywords,
    )
    return result.events
