"""What the library refuses, by the argument: an input is one line. Keywords of estimators: contract/test_bad_keywords."""

import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

import dpalgos
from dpalgos import Budget, InputError, Sample
from dpalgos.accounting.events import Relation
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.other_events import SampledGaussian, Selection
from dpalgos.audit.foreign import audit_callable, table_pairs
from dpalgos.audit.lower_bound import audit_estimator
from dpalgos.audit.rates import detectable_fault
from dpalgos.core.hardened_noise import SecureSpend
from dpalgos.core.plans import Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.hardened_release import release_plan
from dpalgos.mechanisms.private_range import BinnedColumns
from dpalgos.mechanisms.sensitivity import Bounded, count
from dpalgos.nonprivate.ols import least_squares
from dpalgos.release.noise_source import Noise
from dpalgos.rows.streams import PartitionedRows, StreamedRows
from dpalgos.rows.units import user_codes
from dpalgos.sklearn import (
    DPBoundedMean,
    DPLinearRegression,
    DPLogisticRegression,
    DPMean,
    DPMultinomialRegression,
    PublicScaler,
)
from tasks.problems.attack_rates import auc_ceiling, clopper_pearson, threshold, tpr_ceiling
from tests.builders import refusals, refused, words

B = {"epsilon": 1.0, "delta": 1e-6}
ONES, EYE, LABELS = np.ones((50, 3)), np.eye(50, 3), np.arange(50) % 3
FRAME = pd.DataFrame({"age": np.linspace(18, 90, 50), "visits": np.arange(50) % 30})
TURNED = pd.Series({"visits": 0.0, "age": 18.0})
TEXTS = pd.DataFrame({"a": ["d", "b=c"], "a=b": ["e", "c"], "a=d": [0.0, 1.0]})
ALIKE = [  # the names of indicators, and of what else is there
    ("a=b=c", TEXTS[["a", "a=b"]], {"a": ["d", "b=c"], "a=b": ["e", "c"]}),
    ("a=d", TEXTS[["a", "a=d"]], {"a": ["b=c", "d"]}),
]
HIDDEN = np.ma.array(np.ones((50, 2)), mask=np.eye(50, 2, dtype=bool))
NOISE = Noise([np.random.default_rng(0)])
TOLD = np.where(np.eye(50, 3) > 0, 123456.789, 1.0)  # which no sentence may show
BAD_ROWS = [
    (np.where(np.arange(50)[:, None] == 1, np.nan, TOLD), ONES[:, 0], ("X", "finite")),
    (np.where(np.arange(50)[:, None] == 1, np.inf, TOLD), ONES[:, 0], ("X", "finite")),
    (TOLD, np.where(np.arange(50) == 1, np.nan, TOLD[:, 0]), ("y", "finite")),
    (TOLD.astype(str), ONES[:, 0], ("X", "numbers")),
    (TOLD.astype(object), ONES[:, 0], ("X", "numbers")),
    (TOLD[:, 0], ONES[:, 0], ("X", "(n, d)")),
    (TOLD[None], ONES[:, 0], ("X", "(n, d)")),
    (TOLD[:0], ONES[:0, 0], ("X", "one row")),
    (TOLD[:, :0], ONES[:, 0], ("X", "one column")),
    (TOLD, TOLD[:-1, 0], ("y", "per row")),
    (TOLD, TOLD[:, :1], ("y", "(n,)")),
]
BAD_BLOCKS = [
    ([], "at least one row"),
    ([np.ones((3, 2)), np.ones((3, 4))], "the same columns"),
    ([np.ones((3, 2)), np.array([[1.0, np.nan]])], "NaN"),
    ([np.full((1, 2), 1e61)], "within"),
    ([np.ones(3)], "(n, d)"),
    ([{}], "at least one row"),
    ([{"a": np.ones(3), "b": np.ones(2)}], "one length"),
    ([{"a": np.ones(3)}, {"a": np.ones(3), "b": np.ones(3)}], "the same columns"),
    ([{"a": np.ones(3), "b": np.ones(3)}, {"b": np.ones(3), "a": np.ones(3)}], "order"),
    (
        [
            pd.DataFrame(np.ones((3, 2)), columns=["a", "b"]),
            pd.DataFrame(np.ones((3, 2)), columns=["b", "a"]),
        ],
        "order",
    ),
    ([{"a": np.array([1, np.nan, np.inf])}], "NaN"),
    ([{"a": np.full(3, -1e61)}], "within"),
    ([{"a": np.array(["1"])}], "numbers"),
    ([{"a": np.ones((3, 1))}], "shape"),
]


def estimate(name="preconditioned_regression", X=ONES, y=ONES[:, 0], **keywords):
    return dpalgos.estimate(name, X, y, rng=np.random.default_rng(0), **{**B, **keywords})


def linear(X=ONES, y=ONES[:, 0], **given):
    return DPLinearRegression(**{**B, **given}).fit(X, y)


def labelled(labels, missing):
    """Fit labels as objects, one of which is missing."""
    objects = pd.Series(labels, dtype=object)
    objects[3] = missing
    return DPLogisticRegression(**B, classes=[False, True]).fit(ONES, objects)


def mean_of_parts(*sizes, mapper=map):
    """Estimate a mean of partitions of three rows that are said to have other sizes."""
    rows = PartitionedRows([(lambda: [ONES[:3]], n) for n in sizes], mapper)
    return estimate("dp_mean", rows, None, value_bound=1.0)


def users(ids):
    public = {"value_bound": 1.0, "concentration_radius": 1.0}
    return estimate("user_level_mean", ONES[:4], None, user_ids=ids, **public)


def top(sensitivity=1.0, slot=Selection(1.0, count=2), spend=Spend(NOISE)):  # noqa: B008
    spend.start({"choice": slot}, {"choice": (count,)})
    return spend.choose("choice", Bounded(ONES[:3, 0], sensitivity, count.formula))


def split(shares, epsilon=0.5):
    return gaussian_plan(epsilon, 1e-5, {label: Share(share) for label, share in shares.items()})


def attack(mechanism=lambda table, seed: 0.0, pairs=table_pairs(5, 2, 1.0), n_trials=1000):  # noqa: B008
    return audit_callable(mechanism, epsilon=1.0, delta=0.0, pairs=pairs, n_trials=n_trials)


def audited(name="dp_mean", **keywords):
    return audit_estimator(name, **{**B, "rng": np.random.default_rng(0), **keywords})


def planned(name, **keywords):
    return release_plan(name, 100, 3, {**B, **keywords})


KEYWORDS = Path(__file__).parents[1] / "contract" / "keywords.toml"
NO_SAMPLER = "no floating-point-safe sampler"
WITHOUT_INTERVALS = tomllib.loads(KEYWORDS.read_text())["without_intervals"]
ROWS = [
    # Budgets and accounting
    *[
        (InputError, name, lambda e=e, d=d: gaussian_mu(e, d))
        for e, d, name in ((0, 1e-5, "epsilon"), (np.inf, 0.1, "epsilon"), (1.0, 0.0, "delta"), (1.0, 1.0, "delta"))
    ],
    (InputError, ("shares", "1.2"), lambda: split({"a": 0.6, "b": 0.6})),
    (InputError, ("shares", "0.9"), lambda: split({"a": 0.6, "b": 0.3})),
    (InputError, "'a'", lambda: split({"a": 0.0})),
    (InputError, ("epsilon", "-1"), lambda: split({"a": 1.0}, epsilon=-1)),
    (InputError, "failure_delta", lambda: Budget(**B, failure_delta=1.0)),
    (InputError, "failure_delta", lambda: Budget(**B, failure_delta=-1.0)),
    (InputError, "failure_delta", lambda: Budget(**B, failure_delta="all")),
    (InputError, "failure_delta", lambda: Budget(**B, failure_delta=[0.0])),
    (InputError, ("relation", "'user'"), lambda: Budget(**B, relation="user")),
    (InputError, "replicates", lambda: estimate(budget=Budget(epsilon=9.0, delta=1e-6), replicates=2)),
    (InputError, "a row", lambda: estimate(budget=Budget(epsilon=9.0, delta=1e-6, relation=Relation.USER))),
    (InputError, "budget", lambda: estimate(budget=1.0)),
    # Rows
    *[(InputError, named, lambda X=X, y=y: estimate(X=X, y=y)) for X, y, named in BAD_ROWS],
    *[(InputError, ("X", named), lambda blocks=blocks: Sample(lambda: blocks)) for blocks, named in BAD_BLOCKS],
    *[(InputError, (name, "one length"), lambda name=name: estimate(**{name: [[123456.0, 2.0], [3.0]]})) for name in ("X", "y")],
    *[(InputError, ("X", "iterable"), lambda each=each: Sample(lambda: each)) for each in (None, 5)],
    (InputError, "partition", lambda: PartitionedRows([])),
    *[(InputError, "X must", lambda n=n: mean_of_parts(3, n)) for n in (2, 4)],
    *[(ValueError, "zip", lambda times=times: mean_of_parts(3, 3, mapper=lambda f, parts: map(f, [*parts, *parts][: int(times * len(parts))]))) for times in (0.5, 2)],
    (InputError, ("X", "masked"), lambda: estimate(X=HIDDEN)),
    (InputError, ("X", "masked"), lambda: estimate(X=list(HIDDEN))),
    (InputError, ("y", "masked"), lambda: estimate(y=HIDDEN[:, 0])),
    (InputError, ("X", "masked"), lambda: estimate(X=lambda: iter([(HIDDEN, np.ones(50))]), y=None)),
    (InputError, ("y", "masked"), lambda: estimate(X=lambda: iter([(ONES, HIDDEN[:, 0])]), y=None)),
    (InputError, "masked", lambda: linear(X=HIDDEN)),
    (InputError, "masked", lambda: linear(y=HIDDEN[:, 0])),
    (InputError, "masked", lambda: linear(X=EYE[:, :2] * 1.0).predict(HIDDEN)),
    (InputError, "masked", lambda: PublicScaler().fit(HIDDEN)),
    (InputError, "masked", lambda: PublicScaler().fit(EYE[:, :2]).transform(HIDDEN)),
    (InputError, "y is", lambda: least_squares(Rows.of_sample(Sample(ONES)))),
    (InputError, "y is", lambda: least_squares(Rows.of_sample(Sample(StreamedRows(lambda: [ONES]))))),
    # Users
    (InputError, "max_rows", lambda: estimate(person_weight="rows")),
    (InputError, "max_rows", lambda: estimate(max_rows=3)),
    (InputError, "user_ids", lambda: estimate(person_weight="rows", max_rows=3)),
    (InputError, "at least two", lambda: estimate(user_ids=np.zeros(50, dtype=int))),
    (InputError, "max_weight", lambda: estimate(weights=ONES[:, 0])),
    (InputError, "max_weight", lambda: estimate(max_weight=2.0)),
    (InputError, "one entry per row", lambda: estimate(weights=np.ones(7), max_weight=2.0)),
    (InputError, "finite", lambda: estimate(weights=np.full(50, np.nan), max_weight=2.0)),
    (InputError, "user_ids", lambda: users(None)),
    (InputError, "one entry per row", lambda: users([1, 1, 2])),
    (InputError, "missing", lambda: users([1, None, 2, 2])),
    (InputError, "user_ids", lambda: users([1, "secret", 2, 2])),
    (InputError, "2^24", lambda: users(np.array([1, 2, 2**24, 2**24 + 1], dtype=np.float32))),
    (InputError, "whole numbers", lambda: users(np.array([1.0, np.nan, 2.0, 2.0]))),
    (InputError, "whole numbers", lambda: users(np.array([1.0, 0.5, 2.0, 2.0]))),
    (InputError, "whole numbers", lambda: users(np.array([1.0, 2.0**53, 2.0, 2.0]))),
    (InputError, "whole numbers", lambda: users([np.True_, np.False_, True, False])),
    (InputError, "bool", lambda: users(np.array([True, False, True, False]))),
    (InputError, "two users", lambda: users(["secret"] * 4)),
    (InputError, ("y", "order"), lambda: linear(FRAME, FRAME["age"][::-1])),
    (InputError, ("y", "order"), lambda: estimate(X=FRAME, y=FRAME["age"][::-1])),
    (InputError, ("user_ids", "order"), lambda: DPLinearRegression(**B).fit(FRAME, FRAME["age"], FRAME["visits"][::-1])),
    (InputError, ("user_ids", "order"), lambda: DPMean(**B, value_bound=1.0).fit(FRAME, None, FRAME["visits"][::-1])),
    *[(InputError, "intercept", lambda each=each: estimate().glance(intercept=each)) for each in (-1, 3, "a", True, 0.5)],
    *[(InputError, "reach", lambda each=each: estimate().glance(reach=each)) for each in ([1, 1], 5, "abcd", [1, 1, 1, -2], [1, 1, 1, np.nan])],
    (InputError, ("user_ids", "order"), lambda: estimate(X=FRAME, y=FRAME["age"], user_ids=FRAME["visits"][::-1])),
    (InputError, ("weights", "order"), lambda: estimate(X=FRAME, y=FRAME["age"], weights=FRAME["visits"][::-1], max_weight=2.0)),
    (InputError, ("row_mask", "order"), lambda: estimate(X=FRAME, y=FRAME["age"], row_mask=(FRAME["age"] > 0)[::-1])),
    # A person could have rows under 1 and under "1"
    *[(InputError, "user_ids must be", lambda ids=ids, dtype=dtype: user_codes(ids if dtype is None else np.array(ids, dtype), 4)) for ids in ([1, "1", 2, 3], ["1", 1.0, "2", "3"], [1, 2.5, 3, 4], [1, None, 2, 3], [True, 1, 2, 3]) for dtype in (None, object)],
    (InputError, ("user_ids", "masked"), lambda: users(np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 0]))),
    # The classes of scikit-learn
    (InputError, "bounds", lambda: linear(bounds=3.0)),
    (InputError, "bounds", lambda: linear(bounds=(1, 1))),
    (InputError, "bounds", lambda: linear(bounds=([0.0, 1.0], 2.0))),
    (InputError, "bounds", lambda: linear(bounds=("a", 1))),
    *[(InputError, "bounds", lambda each=each: linear(y_bounds=each)) for each in ((0, 1e200), (-1e308, 1e308))],
    *[(InputError, "bounds", lambda each=each: linear(bounds=each)) for each in ((0, 1e-100), (0, 5e-324))],
    (InputError, "bounds", lambda: DPMean(**B, value_bound=2.0, bounds=(-1e308, 1e308)).fit(ONES)),
    *[(InputError, ("bounds", "two columns"), lambda each=each: linear(ONES[:, :2], bounds=each)) for each in (((0, 10), (20, 100)), [[0, 20], [10, 100]], [np.array([0, 20]), np.array([10, 100])], [(0, 10), [20, 100]], [pd.Series([0, 20]), pd.Series([10, 100])], (np.array([0, 20]), (10, 100)))],
    (InputError, ("bounds", "two columns"), lambda: PublicScaler(bounds=[np.array([0, 20]), np.array([10, 100])]).fit(ONES[:, :2])),
    (InputError, ("fit_intercept", "'False'"), lambda: linear(fit_intercept="False")),
    *[(InputError, ("levels", "'age'"), lambda each=each: linear(FRAME, levels={"age": each})) for each in ([1, "1"], {18, 90}, "ab", [1, None], [(1,), (2,)], [range(18), range(90)], np.eye(2))],
    *[(InputError, repr(name), lambda frame=frame, levels=levels: linear(frame, levels=levels)) for name, frame, levels in ALIKE],
    (InputError, "'intercept'", lambda: linear(pd.DataFrame({"intercept": LABELS}), levels={"intercept": [0, 1, 2]})),
    (InputError, "'height'", lambda: linear(FRAME, levels={"height": [1, 2]})),
    *[(InputError, "levels", lambda each=each: linear(FRAME, levels=each)) for each in (["age"], "age", 5)],
    (InputError, ("X", "one name"), lambda: linear(FRAME[["age", "age"]])),
    *[(InputError, ("X", "text"), lambda each=each: linear(each)) for each in (FRAME.astype(str), FRAME.astype("string"), FRAME.to_numpy().astype("S"))],
    (InputError, ("y", "text"), lambda: linear(y=ONES[:, 0].astype(str))),
    (InputError, ("X", "text"), lambda: linear(FRAME).predict(FRAME.astype(str))),
    *[(InputError, ("y", "missing"), lambda each=each: labelled(LABELS > 0, each)) for each in (None, pd.NA, np.nan)],
    (InputError, ("y", "per row"), lambda: DPLogisticRegression(**B, classes=[0, 1]).fit(ONES, LABELS % 2).score(ONES, [0])),
    *[(InputError, ("X", "shape"), lambda shape=shape: PublicScaler().fit(ONES).inverse_transform(np.ones(shape))) for shape in ((3,), (4, 1), (4, 2), (2, 3, 3))],
    *[(InputError, "sample_weight", lambda each=each: DPLogisticRegression(**B, classes=[0, 1]).fit(ONES, LABELS % 2).score(ONES, LABELS % 2, each)) for each in (np.ones(3), np.zeros(50), np.ones((50, 1)))],
    (InputError, ("y", "order"), lambda: linear(FRAME, FRAME["age"]).score(FRAME, FRAME["age"][::-1])),
    (InputError, ("y", "order"), lambda: DPLogisticRegression(**B, classes=[False, True]).fit(FRAME, FRAME["age"] > 40).score(FRAME, (FRAME["age"] > 40)[::-1])),
    # Public numbers whose labels are those of the columns in another order
    (InputError, "bounds", lambda: linear(FRAME, bounds=(TURNED, TURNED + 90))),
    (InputError, "lower", lambda: estimate("box_mean", X=FRAME, y=None, lower=TURNED, upper=TURNED + 90)),
    (InputError, "lower", lambda: DPBoundedMean(**B, lower=TURNED, upper=TURNED + 90).fit(FRAME)),
    (InputError, "center", lambda: PublicScaler(center=TURNED).fit(FRAME)),
    (InputError, "y_bounds", lambda: linear(y_bounds=(0, float("inf")))),
    (InputError, "'visits'", lambda: linear(FRAME, bounds={"age": (18, 90)})),
    (InputError, "'height'", lambda: linear(FRAME, bounds={"age": (1, 9), "visits": (0, 2), "height": (1, 2)})),
    (InputError, "data frame", lambda: linear(FRAME.to_numpy(), bounds={"age": (18, 90), "visits": (0, 30)})),
    (InputError, "scale", lambda: PublicScaler(scale=[1.0, 0.0, 1.0]).fit(ONES)),
    (InputError, "bounds", lambda: PublicScaler(bounds=(0, 1), scale=2.0).fit(ONES)),
    (InputError, "center", lambda: PublicScaler(center=[1.0, 2.0]).fit(ONES)),
    (InputError, "center", lambda: PublicScaler(center="a").fit(ONES)),
    (TypeError, ("sample_weight", "noise"), lambda: DPMean(**B, value_bound=2.0).fit(ONES, sample_weight=ONES[:, 0])),
    (InputError, ("budget", "int"), lambda: dpalgos.estimate("ols", ONES, ONES[:, 0], rng=np.random.default_rng(0), budget=5)),
    (InputError, ("fit_intercept", "array"), lambda: DPLinearRegression(**B, fit_intercept=np.ones(2)).fit(FRAME, FRAME["age"])),
    (InputError, ("combinations", "3", "2"), lambda: estimate().along(np.ones((1, 2)))),
    (InputError, ("combinations", "shape"), lambda: estimate().along([1.0, 0.0, 0.0])),
    (InputError, ("max_weight", "weights"), lambda: DPLinearRegression(**B).fit(ONES, ONES[:, 0], sample_weight=ONES[:, 0])),
    (InputError, "3 classes", lambda: DPLogisticRegression(**B).fit(ONES, LABELS)),
    (TypeError, "delta", lambda: DPLinearRegression(epsilon=1.0)),
    *[
        ((InputError, TypeError), "classes", lambda c=c: DPMultinomialRegression(**B, classes=c).fit(ONES, LABELS > 0))
        for c in (["a"], ["a", "a"], "ab", [["a", "b"]], [], 3, ["a", 1])
    ],
    (InputError, ("classes", "[1, 'no']"), lambda: DPLogisticRegression(**B, classes=[1, "no"]).fit(ONES, np.where(LABELS > 0, 1, np.array("no", dtype=object)))),
    # Estimators that need another one's keywords
    (InputError, "family", lambda: estimate("dp_glm", family=LABELS, covariate_bound=1.0)),
    (InputError, "value_bound", lambda: estimate("private_frank_wolfe_lasso", y=None, covariate_bound=1.0, response_bound=1.0, coef_l1_bound=1.0)),
    (InputError, "covariate_bound", lambda: estimate("private_frank_wolfe_lasso", value_bound=1.0, coef_l1_bound=1.0)),
    (InputError, "n_iterations", lambda: estimate("output_perturbation_glm", X=EYE, y=LABELS % 2, family="logistic", covariate_bound=2.0, ridge=1e-3, n_iterations=1)),
    (InputError, "n_iterations", lambda: estimate("objective_perturbation_glm", X=ONES * [1, 0.1, 0.2], y=LABELS % 2, family="logistic", covariate_bound=2.0, n_iterations=1)),
    *[
        (InputError, "lower", lambda bounds=bounds: estimate("binagg_regression", X=np.eye(2), y=np.ones(2), response_bound=1.0, **bounds))
        for bounds in ({}, {"lower": 0.0}, {"covariate_bound": 1.0, "lower": 0.0, "upper": 1.0}, {"lower": 1.0, "upper": [2, 1]})
    ],
    *[
        (InputError, ("interval", name, f"use preconditioned_{kind}"), lambda name=name: estimate(name, interval=0.95))
        for kind, names in WITHOUT_INTERVALS.items()
        for name in names
    ],
    (InputError, "offset_bounds", lambda: estimate("preconditioned_glm", y=LABELS, family="multinomial", n_classes=3, offset_bounds=(0, 1))),
    # Mechanisms
    (InputError, "epsilon", lambda: top(slot=Selection(np.nan, count=2))),
    (InputError, "sensitivity", lambda: top(sensitivity=-1.0)),
    (InputError, "2e+16", lambda: BinnedColumns(ONES[:, :1], 1e16, 1.0)),
    # Releases that have no floating-point-safe sampler, or no plan
    (InputError, NO_SAMPLER, lambda: planned("sheffet_ols", covariate_bound=1.0, response_bound=1.0)),
    (InputError, NO_SAMPLER, lambda: planned("output_perturbation_glm", family="logistic", covariate_bound=1.0, ridge=0.1)),
    (InputError, NO_SAMPLER, lambda: planned("objective_perturbation_glm", family="logistic", covariate_bound=2.0)),
    (InputError, NO_SAMPLER, lambda: planned("dp_mean", value_bound=1.0, truncation="private_quantiles")),
    (InputError, NO_SAMPLER, lambda: top(slot=Selection(0.5, by="peeling"), spend=SecureSpend())),
    (InputError, NO_SAMPLER, lambda: SecureSpend().start({"g": SampledGaussian(1.0, sampling_rate=0.5)}, {}).of_drawn_rows("g", lambda drawn: drawn, np.ones((1, 1), dtype=bool), 1.0)),
    (InputError, "too many for the grid", lambda: release_plan("box_mean", 10**12, 4, {"epsilon": 1.0, "delta": 1e-14, "lower": 0.0, "upper": 1.0})),
    (InputError, "private", lambda: planned("ols")),
    (InputError, "'adassp'", lambda: planned("adasp")),
    (InputError, "calibration", lambda: planned("dp_mean", value_bound=1.0, calibration="paper")),
    # Rows where a public value belongs: the sentence says their type
    *[
        (InputError, name, lambda name=name, rows=rows: estimate("dp_mean", **{"value_bound": 1.0, name: rows}))
        for name in ("value_bound", "epsilon", "delta", "max_rows", "max_weight")
        for rows in (TOLD, pd.DataFrame(TOLD), TOLD.ravel().tolist())
    ],
    (InputError, "ndarray", lambda: estimate(TOLD, "dp_mean")),
    (InputError, "y_bounds", lambda: linear(y_bounds=TOLD[0])),
    (InputError, "bounds", lambda: linear(bounds=pd.DataFrame(TOLD))),
    (InputError, "random_state", lambda: linear(random_state=TOLD)),
    (InputError, "center", lambda: PublicScaler(center=TOLD).fit(TOLD)),
    (InputError, "classes", lambda: DPLogisticRegression(**B, classes=TOLD).fit(ONES, LABELS)),
    # Audits
    (InputError, ("estimator", "'ols'"), lambda: audited("ols")),
    (InputError, "n_trials", lambda: audited(n_trials=0)),
    (InputError, "'clipp'", lambda: audited(clipp=1)),
    (InputError, "rng must", lambda: audited(rng=3)),
    *[(InputError, "n_trials", lambda n=n: detectable_fault(n, 1.0, 1e-5)) for n in (0, -1, True)],
    (InputError, "hits", lambda: clopper_pearson(3, 2)),
    (InputError, "false_positive_rate", lambda: threshold(np.zeros((5, 5)), 0.0)),
    (InputError, "false_positive_rate", lambda: tpr_ceiling(1.5, 1.0, 1e-3)),
    (InputError, ("epsilon", "-1.0"), lambda: auc_ceiling(-1.0, 1e-3)),
    (InputError, "SystemExit", lambda: attack(lambda table, seed: sys.exit(0))),
    (InputError, "None", lambda: attack(lambda table, seed: None)),
    (InputError, "finite", lambda: attack(lambda table, seed: np.nan)),
    (InputError, "finite", lambda: attack(lambda table, seed: [np.inf, np.nan])),
    (InputError, "10,000,000", lambda: attack(lambda table, seed: np.zeros(10**7))),
    (InputError, "ZeroDivisionError", lambda: attack(lambda table, seed: 1 / 0)),
    (InputError, "pair", lambda: attack(pairs=[])),
    (InputError, "trials", lambda: attack(n_trials=10**8)),
    (InputError, "columns", lambda: table_pairs(10, 10**8, 1.0)),
    *[(InputError, str(bound), lambda bound=bound: table_pairs(10, 2, bound)) for bound in (-1.0, np.nan, np.inf)],
]  # fmt: skip


@refusals(ROWS)
def test_a_bad_argument_is_refused_by_name(error, named, use):
    refused(use, error, *words(named), hidden=("secret", "123456"))
