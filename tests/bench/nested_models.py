"""How often nested models' intervals cover and tests of true hypotheses reject, and how wide intervals are.

On the shapes of the guide's table of intervals that have a slope to leave out, on counts, and on correlated
discrete columns. A nested model keeps the first half of the columns, at least two, and the constant.
"""

import warnings

import numpy as np
import statsmodels.api as sm

import dpalgos
from tests.bench import interval_promises as table
from tests.bench.goals import Goal, Measurement

_REPETITIONS, _SIZE, _POPULATION = 400, 0.05, 400_000
_LINEAR, _EVENTS, _COUNTS = "linear", "logistic", "counts"
_FAMILIES = {
    _LINEAR: ("preconditioned_regression", {}, sm.families.Gaussian),
    _EVENTS: ("preconditioned_glm", {"family": "logistic"}, sm.families.Binomial),
    _COUNTS: ("preconditioned_glm", {"family": "poisson"}, sm.families.Poisson),
}


def counts(per_row):
    def law(rng, n):
        coef = np.append(0.3 * np.linspace(1, -1, 4), np.log(per_row))
        X = np.column_stack([rng.standard_normal((n, 4)), np.ones(n)])
        return X, rng.poisson(np.exp(X @ coef)).astype(float), coef

    return law


def discrete(family):
    def law(rng, n):
        Z = rng.standard_normal((n, 4)) @ np.linalg.cholesky(0.5 * np.eye(4) + 0.5).T
        steps = np.clip(np.round(Z[:, 2]), -2, 2)
        X = np.column_stack([Z[:, 0] > 0, Z[:, 1] > 1.3, steps, Z[:, 3] > 0.5, np.ones(n)]).astype(float)
        coef = np.array([0.5, -0.4, 0.3, 0.0, 0.2]) * (0.6 if family == _COUNTS else 1.0)
        mean = _FAMILIES[family][2]().link.inverse(X @ coef)
        responses = {
            _LINEAR: lambda: mean + rng.standard_normal(n),
            _EVENTS: lambda: 1.0 * (rng.random(n) < mean),
            _COUNTS: lambda: rng.poisson(mean).astype(float),
        }
        return X, responses[family](), coef

    return law


SHAPES = (  # family, law, rows, ε, whether the last column is the constant
    (_LINEAR, table.normal, 20_000, 1.0, True),
    (_LINEAR, table.normal, 5_000, 0.5, True),
    (_LINEAR, table.uniform(3), 5_000, 0.5, False),
    (_LINEAR, table.uniform(8), 10_000, 0.5, False),
    (_LINEAR, table.costs, 12_000, 1.0, True),
    (_LINEAR, discrete(_LINEAR), 5_000, 1.0, True),
    (_EVENTS, table.events(0.0), 20_000, 1.0, True),
    (_EVENTS, table.events(-3.6), 15_000, 1.0, True),
    (_EVENTS, discrete(_EVENTS), 5_000, 1.0, True),
    (_COUNTS, counts(1.0), 20_000, 1.0, True),
    (_COUNTS, counts(4.0), 20_000, 1.0, True),
    (_COUNTS, discrete(_COUNTS), 5_000, 1.0, True),
)


def measure(shape, repetitions):
    """Return how often true hypotheses are rejected, in %, and the width over that of a release's own.

    Of ``whole`` models each slope, of ``nested`` ones each coefficient that has an interval in half of the
    releases, of ``contrast`` the difference of the first two in both, of ``joint`` the last two slopes.
    """
    family, law, n, epsilon, constant = shape
    name, keywords, of = _FAMILIES[family]
    X, _, coef = law(np.random.default_rng(11), _POPULATION)
    slopes = len(coef) - constant
    kept = [*range(max(2, slopes // 2)), *([slopes] if constant else [])]
    own_coef = sm.GLM(of().link.inverse(X @ coef), X[:, kept], family=of()).fit().params
    asked = {"epsilon": epsilon, "delta": n**-2.0, "interval": 0.95, "intercept": constant, **keywords}
    p_values, widths = {"whole": [], "nested": [], "contrast": [], "joint": []}, []
    for rng in np.random.default_rng(2027).spawn(repetitions):
        X, y, _ = law(rng, n)
        whole = dpalgos.estimate(name, X, y, rng=rng, **asked).model
        nested = whole.submodel([whole.terms[j] for j in kept])
        every = np.eye(len(coef))[:slopes], coef[:slopes]
        p_values["whole"].append(whole.t_test(every).pvalue)
        p_values["joint"].append([whole.wald_test(tuple(each[-2:] for each in every)).pvalue])
        p_values["nested"].append(nested.t_test((np.eye(len(kept)), own_coef)).pvalue)
        both = [_difference(whole, coef), _difference(nested, own_coef)]
        p_values["contrast"].append(both)
        own = np.diff(dpalgos.estimate(name, X[:, kept], y, rng=rng, **asked).interval, axis=0)[0]
        widths.append(np.diff(nested.coefficients().limits, axis=0)[0] / own)
    found = {}
    for what, values in p_values.items():
        there = np.isfinite(values)
        rejected = 100 * (there & (np.array(values) < _SIZE)).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        found[what] = rejected[there.mean(axis=0) > 0.5]
    return {**found, "width": np.array([np.nanmedian(widths)])}


def _difference(model, coef):
    weights = np.eye(len(coef))[0] - np.eye(len(coef))[1]
    return model.t_test((weights, weights @ coef)).pvalue[0]


def bench_nested_models(small: bool = False) -> Measurement:
    """Measure intervals and tests at 5 %; the goal is a coverage of .93 of the worst coefficient."""
    shapes, repetitions = (SHAPES[1:2], 2) if small else (SHAPES, _REPETITIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that are clipped, which some shapes have
        found = [(shape[0], measure(shape, repetitions)) for shape in shapes]
    facts, goals = {"releases": str(repetitions)}, []
    for family in dict.fromkeys(family for family, _ in found):
        own = [of_shape for each, of_shape in found if each == family]
        for what, form in {
            **dict.fromkeys(("whole", "nested", "contrast", "joint"), ".1f"),
            "width": ".2f",
        }.items():
            values = np.concatenate([of_shape[what] for of_shape in own])
            values = values[np.isfinite(values)]  # no width where nested models have no interval
            facts[f"{family}/{what}"] = f"{values.min():{form}} to {values.max():{form}}"
        worst = 100 - max(of_shape["nested"].max(initial=0) for of_shape in own)
        facts[f"{family}/covered"] = f"{worst:.1f}"
        facts[f"{family}/withheld"] = f"{sum(not of_shape['nested'].size for of_shape in own)} of {len(own)}"
        goals.append(
            Goal(what=f"nested {family} models, least coverage", values=[worst], wanted=93, unit="%")
        )
    return Measurement(
        figure=", ".join(f"{goal.what} {goal.median:.1f} %" for goal in goals), goals=goals, facts=facts
    )
