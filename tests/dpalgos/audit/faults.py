"""Planted faults: estimators of the catalog with their privacy broken in one known way."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from unittest.mock import patch

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.accounting.gaussian_dp import gaussian_delta
from dpalgos.api import build_params
from dpalgos.audit.attack import AuditResult
from dpalgos.audit.lower_bound import audit
from dpalgos.audit.trials import BatchNoise
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.comparators import sheffet_ols
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.mechanisms.sensitivity import Bounded, ball_mean
from dpalgos.rows.products import clip_rows_l2
from dpalgos.user_level import aggregation, user_level_mean


class HalvedNoise(BatchNoise):
    factor = 2.0

    def _fresh(self, kind, count):
        return super()._fresh(kind, count) / self.factor


def keywords_of(estimator):
    return {item.name: getattr(estimator, item.name) for item in fields(estimator)}


def breaking(change: Callable) -> Callable[[PrivateEstimator], PrivateEstimator]:
    """Run ``change(run, sample, params, spend)`` in the place of an estimator's method ``run``."""

    def broken(estimator):
        kind = type(estimator)

        def run(self, sample, spend, **options):
            def intact(sample, params, spend):
                return kind(**keywords_of(params)).run(sample, spend, **options)

            return change(intact, sample, self, spend)

        return type(kind.__name__, (kind,), {"run": run})(**keywords_of(estimator))

    return broken


@breaking
def half_of_the_row_bound(run, sample, params, spend):
    """A row bound forgotten a factor of 2 is one of 4 in its square, which the ridge is a multiple of."""
    sketch = sheffet_ols.release_sketch

    def with_a_quarter(spend, label, gram, row_bound_squared, *, added):
        missing = 0.75 * spend.plan[label].ridge * row_bound_squared
        return sketch(spend, label, gram - missing * np.eye(gram.shape[-1]), row_bound_squared, added=added)

    with patch.object(sheffet_ols, "release_sketch", with_a_quarter):
        return run(sample, params, spend)


def without(module: str, function: str) -> Callable[[PrivateEstimator], PrivateEstimator]:
    """Remove a clipping function from an estimator's module."""

    def change(run, *data):
        with patch.object(importlib.import_module(module), function, lambda values, bound: values):
            return run(*data)

    return breaking(change)


def changed_params(change: Callable) -> Callable[[PrivateEstimator], PrivateEstimator]:
    """Run an estimator with parameters that ``change(params, sample)`` returns."""
    return breaking(lambda run, sample, params, spend: run(sample, change(params, sample), spend))


def bound_from_the_data(params, sample):
    largest = np.abs(sample.X).max(axis=1).max() * np.sqrt(sample.n_features)
    return replace(params, covariate_bound=float(np.clip(largest, 1e-6, 1e100)))


def pure_like(params, sample):
    """Calibrate to the δ at which σ = √2 Δ/ε would do: the formula for pure privacy, put on a Gaussian."""
    return replace(params, delta=gaussian_delta(params.epsilon, params.epsilon / np.sqrt(2)))


@dataclass(frozen=True)
class Fault:
    name: str
    estimator: str
    break_it: Callable[[PrivateEstimator], PrivateEstimator]
    keywords: dict = field(default_factory=dict)
    gross: bool = False  # so large that a few thousand runs do

    def audit(self) -> AuditResult:
        estimator = get_estimator(self.estimator)
        budget = {"epsilon": 2.0, "delta": 1e-4, "calibration": "tight"}
        params = build_params(estimator, {**estimator.example, **self.keywords, **budget})
        options = {"n_trials": 5_000 if self.gross else 10_000, "n_features": 2}
        return audit(estimator, self.break_it(params), rng=np.random.default_rng(0), **options)


@breaking
def rows_clipped_one_by_one(run, sample, params, spend):
    """A user's rows are clipped each and added up, and what they make together is not."""
    bound = np.sqrt(sample.n_features) * params.value_bound
    sums = lambda rows, *_: np.add.reduce(clip_rows_l2(rows.whole().X, bound))[None, :]  # noqa: E731
    unclipped = lambda users, _: users.sum(lambda block: block.total(block.X))  # noqa: E731
    with (
        patch.object(user_level_mean, "sums_of_units", sums),
        patch.object(aggregation, "mean_offset", unclipped),
    ):
        return run(sample, params, spend)


# Each with another clip or another way of accounting; tests/dpalgos/audit halve noise and sensitivities.
FAULTS = [
    Fault(
        "half of the row bound",
        "sheffet_ols",
        half_of_the_row_bound,
        keywords={"n_sketch_rows": 5},
    ),
    Fault(
        "rows of a user clipped one by one",
        "user_level_mean",
        rows_clipped_one_by_one,
        keywords={"aggregation": "clipped"},
    ),
    Fault("rows not clipped", "adassp", without("dpalgos.core.rows", "clip_rows_l2"), gross=True),
    Fault(
        "responses not truncated",
        "dp_linear_regression",
        without("dpalgos.core.rows", "truncate"),
        gross=True,
    ),
    Fault("bound from the data", "dp_linear_regression", changed_params(bound_from_the_data), gross=True),
    Fault("delta ignored, √2/ε", "dp_mean", changed_params(pure_like), gross=True),
]


def audit_toy(function, neighbors, *, epsilon=2.0, delta=1e-4, n_trials=10_000, seed=0, **options):
    """Audit ``function(sample, params, spend)`` on one pair of neighbors (X, X') and the far pairs.

    The function starts a plan of its own.
    """
    X, other_X = (np.asarray(rows, dtype=float) for rows in neighbors)
    zero = np.zeros(len(X))
    about = dict.fromkeys(("title", "reference", "summary"), "")
    about |= {"name": "toy", "task": "mean", "relation": Relation.CENTRAL, "calibrations": ("tight",)}

    class Toy(PrivateEstimator):
        batch = True
        lemmas = {"toy": ball_mean}  # noqa: RUF012
        witnesses = {"toy": lambda params, d: (X, zero, other_X, zero)}  # noqa: RUF012
        plan = fit = None

        def run(self, sample, spend, **_):
            return function(sample, self, spend)

    estimator = Estimator(**about, parameters=Toy, example={}, order=0)
    rng = np.random.default_rng(seed)
    return audit(
        estimator,
        Toy(epsilon=epsilon, delta=delta),
        n_trials=n_trials,
        n_features=X.shape[1],
        rng=rng,
        **options,
    )


def column_sums(sample, bound=0.5):
    """Column sums of entries truncated to ±bound, (d, R): they move by at most 2 · bound."""
    sums = np.clip(sample.X, -bound, bound).sum(axis=0)[:, None]
    return np.repeat(sums, sample.n_replicates, axis=1)


def released(spend, label, slot, value, sensitivity):
    """Make the only release of a plan, of vectors (k, R), with a sensitivity that the toy states."""
    spend.start({label: slot}, {label: (ball_mean,)}, is_batch=spend.noise.n_replicates > 1)
    return spend.columns(label, Bounded(value, np.asarray(sensitivity), ball_mean.formula)).value
