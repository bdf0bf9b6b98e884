"""Formulas, declarations and frames that are refused, by what is wrong with them: an input is one line."""

import unicodedata

import numpy as np
import pandas as pd
import pytest

import dpalgos.formula as private
from dpalgos import InputError
from dpalgos.formula.allowed import read_formula
from dpalgos.formula.columns import NumberColumn
from dpalgos.formula.design import design_of
from tests.builders import refusals, refused, words
from tests.dpalgos.test_formula import DECLARED as OF_PEOPLE

DECLARED = {**OF_PEOPLE, **dict.fromkeys("abcy", NumberColumn(-1, 1))}
FORMULAS = {
    # What would be learned from the rows, or is no function of one row
    "cost ~ lag(age)": "lag",
    "cost ~ qcut(age, 4)": "qcut",
    "cost ~ C(age)": "levels",
    "cost ~ C(region, Sum)": "Sum",
    "cost ~ C(region, Treatment('east'))": "'east'",
    "cost ~ I(age - age.mean())": "public constant",
    "cost ~ I(age - mean(age))": "public constant",
    "cost ~ np.mean(age) + smoker": "public constant",
    "cost ~ bs(age, knots=(10, 50), extrapolation='raise')": "arguments",
    "cost ~ cr(age, df=3, extrapolation='raise')": "arguments",
    "cost ~ bs(age, df=10**9)": "arguments",
    "cost ~ poly(age, 99999999)": "arguments",
    "cost ~ bs(age, knots=visits)": "arguments",
    "cost ~ cr(age)": "cr(age)",
    # Not finite within the bounds
    "cost ~ log(visits)": "visits",
    "cost ~ I(age / visits)": "visits",
    "cost ~ sqrt(age - 50)": "age - 50",
    # Not known, or no formula
    "cost ~ C(zip)": "zip",
    "cost ~ weight": "'weight'",
    "cost ~ tanh(age)": "tanh",
    "cost ~ np.poly(age)": "poly",
    "cost ~ I(region + 1)": "region",
    "cost ~ age | sex": "joined by",
    "cost ~": "joined by",
    "cost ~ 2:age": "joined by",
    "cost ~ age[0]": "joined by",
    "cost ~ {age}": "joined by",
    "cost ~ 1": "covariate",
    "region ~ age": "two levels",
    "cost + age ~ smoker": "one response",
    "1 ~ age": "one response",
    # Terms that no rows identify
    "cost ~ I(age**0) + age": ("linear combination", "I(age ** 0)"),
    "cost ~ bs(age, knots=(35, 60)) + age": ("linear combination", "age"),
    "cost ~ bs(age, df=4) + age + smoker": ("linear combination", "age"),
    "cost ~ cr(age, df=4)": ("linear combination", "cr(age, df=4)[3]"),
    "cost ~ age + I(2 * age - 3)": ("linear combination", "I(2 * age - 3)"),
    "cost ~ log(age) + log(I(3 * age))": ("linear combination", "log(I(3 * age))"),
    "cost ~ region + C(region)": ("linear combination", "C(region)"),
    "cost ~ age + visits + I(age + visits)": ("linear combination", "I(age + visits)"),
    "cost ~ 0 + C(sex) + I(age**0)": ("linear combination", "I(age ** 0)"),
    "cost ~ `age` + Q('age'):I(visits**0)": ("linear combination", "age"),
    # Too much of one
    "y ~ I(age**99999999)": (),
    "y ~ exp(exp(age))": (),
    "y ~ " + " + ".join(f"I(age**{k})" for k in range(1, 400)): (),
    "y ~ I(" + " + ".join(f"age**{k}" for k in range(1, 400)) + ")": (),
    "y ~ (a + b + c)**99999": (),
    "y ~ (a + b + c)^99999": (),
    "y ~ " + " * ".join("abc" * 10): (),
    "y ~ (age + a + b + c + I(a**2) + I(b**2) + I(c**2) + log(age + 1) + exp(a) + exp(b) + exp(c) + y)**12": (),
    "y ~ I(" + "-" * 5000 + "a)": (),
    "y ~ I(1 / 0 * a)": (),
    "y ~ a ++* b": (),
    "y ~ a | b |": (),
    "y ~ (a + b": (),
    "y ~ bs(a, knots='x')": (),
    "y ~ C(a, levels=3)": (),
}
BOUNDS = {"age": (18, 90), "smoker": (0, 1), "cost": (0, 5000), "days": (1, 3650), "visits": (0, 500)}


def people(n=60):
    rng = np.random.default_rng(0)
    frame = {name: rng.uniform(low, high, n) for name, (low, high) in BOUNDS.items()}
    return pd.DataFrame(frame).assign(region=rng.choice(["n", "s"], n), visits=rng.poisson(2, n))


def fit(formula="cost ~ age + C(region)", frame=None, model=private.ols, **changes):
    options = {"bounds": BOUNDS, "levels": {"region": ["n", "s"]}, "epsilon": 1.0, "delta": 1e-6, **changes}
    return model(formula, people() if frame is None else frame, random_state=0, **options)


def of_rates(formula):
    return fit(formula, model=private.poisson)


DAY = pd.Timestamp("2024-01-31")
TWICE = pd.DataFrame(np.ones((50, 3)), columns=["y", "a", "a"])
ALIKE = ["y", "e\u0323\u0301", unicodedata.normalize("NFC", "e\u0301\u0323")]
NAMED = {name: NumberColumn(1, 2) for name in ("a", "b", "a:b", "y", "log(b)")}
MASKED = {**people().to_dict("series"), "age": np.ma.array(people()["age"], mask=np.arange(60) == 3)}
ROWS = [
    (InputError, "cost", lambda: fit(bounds={"age": (18, 90)})),
    *[(InputError, "age", lambda each=each: fit(bounds={**BOUNDS, "age": each})) for each in ((90, 18), 3)],
    (InputError, "region", lambda: fit(levels={"region": ["n", "x"]})),
    (InputError, "age", lambda: fit(levels={"age": ["a", "b"]})),
    (InputError, "height", lambda: fit(center={"height": 1.0})),
    (InputError, "age", lambda: fit(frame=people().drop(columns="age"))),
    *[(InputError, "age", lambda each=each: fit(frame=people().assign(age=each))) for each in (np.nan, "old", 1j, DAY)],
    (InputError, ("'age'", "masked"), lambda: fit(frame=MASKED)),
    (InputError, "'a' once", lambda: fit("y ~ a", TWICE, bounds={"y": (0, 2), "a": (0, 2)})),
    (InputError, "rename", lambda: design_of("y ~ `a:b` + a:b", NAMED)),
    (InputError, "rename", lambda: design_of("y ~ `log(b)` + log(b)", NAMED)),
    (InputError, "rename", lambda: read_formula("y ~ e\u0301\u0323", ALIKE)),
    (InputError, "rename", lambda: design_of("y ~ `Intercept` + a", {**NAMED, "Intercept": NumberColumn(1, 2)})),
    (InputError, "'region'", lambda: fit(levels={"region": ["n"]})),
    (InputError, "offset", lambda: of_rates("visits ~ age:offset(log(days))")),
    (InputError, "offset", lambda: of_rates("visits ~ age + offset(days, 2)")),
    (InputError, "weeks", lambda: of_rates("visits ~ age + offset(log(weeks))")),
    (InputError, "region", lambda: of_rates("visits ~ age + exposure(region)")),
    (InputError, "covariate", lambda: of_rates("visits ~ offset(log(days))")),
    (InputError, "I(visits - log(days))", lambda: fit("visits ~ age + offset(log(days))")),
]  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_refused_by_what_is_wrong(formula):
    refused(lambda: design_of(formula, DECLARED), InputError, *words(FORMULAS[formula]))


@refusals(ROWS)
def test_declarations_and_frames_are_refused_by_name(error, named, use):
    refused(use, error, *words(named))
