"""Formulas, declarations and frames that are refused, by what is wrong with them: an input is one line."""

import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpalgos.formula as private
from dpalgos import InputError
from dpalgos.answers.contrasts import constraints_of
from dpalgos.formula.allowed import read_formula
from dpalgos.formula.columns import CategoryColumn, NumberColumn
from dpalgos.formula.design import design_of
from tests.builders import refusals, refused, words
from tests.dpalgos.test_formula import DECLARED as OF_PEOPLE

DECLARED = {**OF_PEOPLE, **dict.fromkeys("abcy", NumberColumn(-1, 1))}
FORMULAS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text())
FORMULAS |= {  # too much of one
    "y ~ " + " + ".join(f"I(age**{k})" for k in range(1, 400)): (),
    "y ~ I(" + " + ".join(f"age**{k}" for k in range(1, 400)) + ")": (),
    "y ~ " + " * ".join("abc" * 10): (),
    "y ~ I(" + "-" * 5000 + "a)": (),
}
BOUNDS = {"age": (18, 90), "smoker": (0, 1), "cost": (0, 5000), "days": (1, 3650), "visits": (0, 500)}


def people(n=60):
    rng = np.random.default_rng(0)
    frame = {name: rng.uniform(low, high, n) for name, (low, high) in BOUNDS.items()}
    return pd.DataFrame(frame).assign(region=rng.choice(["n", "s"], n), visits=rng.poisson(2, n))


def fit(formula="cost ~ age + C(region)", frame=None, model=private.ols, **changes):
    options = {"bounds": BOUNDS, "levels": {"region": ["n", "s"]}, "epsilon": 1.0, "delta": 1e-6, **changes}
    return model(formula, people() if frame is None else frame, random_state=0, **options)


def table_one(**changes):
    return fit("region ~ age", model=private.table_one, bounds={"age": (18, 90)}, **changes)


BAD_OF_TABLES = {
    "center": {"age": 50},
    "replicates": 2,
    "row_mask": np.arange(60) < 9,
    "shrinkage": "james_stein",
    "resolution": {"age": 0},
}
BAD_OF_TABLES |= {"interval": 95, "user_ids": np.arange(60), "weights": np.ones(60)}


OF_R = {
    **dict.fromkeys(("ns(age, 3)", "s(age)", "rcs(age, 3)", "pspline(age)"), "cr(x, df=4)"),
    **dict.fromkeys(("relevel(region, ref = 's')", "C(region) + relevel(region, 's')"), "Treatment("),
    **dict.fromkeys(("strata(region)", "as.numeric(region)", "cut(age, 3)", "ifelse(age, 1, 0)"), "column"),
    **dict.fromkeys(("cluster(region)", "frailty(region)"), "user="),
    **{"interaction(region, smoker)": "a:b", "cbind(age, cost)": "one"},
}


class Formula:
    """A formula of rpy2, patsy or formulaic."""

    def __str__(self):
        return "cost ~ age"


def of_rates(formula):
    return fit(formula, model=private.poisson)


DAY = pd.Timestamp("2024-01-31")
TOLD = pd.Series(np.full(60, 123456.789))  # which no sentence may show
TWICE = pd.DataFrame(np.ones((50, 3)), columns=["y", "a", "a"])
ALIKE = ["y", "e\u0323\u0301", unicodedata.normalize("NFC", "e\u0301\u0323")]
CODED = people().assign(smoker=np.arange(60) % 2 + 1)  # no event has a bound of 1 and a code of 2
MASKED = {**people().to_dict("series"), "age": np.ma.array(people()["age"], mask=np.arange(60) == 3)}
SAME = [("\u00b5g", "\u03bcg"), ("caf\u00e9", "cafe\u0301")]
PANDAS = people().assign(region=pd.Categorical(people()["region"]))
LIKE_TERMS = dict.fromkeys(("y", "a", "C(g)", "g:h", "log(a)"), NumberColumn(1, 2))
LIKE_TERMS |= dict.fromkeys("gh", CategoryColumn(("a", "b")))
SPOILED = [
    ("I(30 - visits)", (0, 20)),
    ("I(visits / 2)", (0, 1)),
    ("visits", (0, 0.5)),
    ("visits", (0.5, 20)),
]
TIMES = {"days": (0, 3650), "smoker": (0, 1), "age": (18, 90)}


def alike(one, other, used, **public):
    """Fit on columns whose names look the same."""
    frame = pd.DataFrame({"y": [0.0, 1.0], one: [0.0, 1.0], other: [1.0, 0.0]})
    return private.ols(f"y ~ {used}", frame, **public, epsilon=1.0, delta=1e-8)


ROWS = [
    # What is not a formula is named with what to write
    *[(InputError, f"I({each} ** 2)", lambda each=each: fit(f"cost ~ {each}**2 + region")) for each in ("age", "visits")],
    *[(InputError, ("column of the table", "0 and 1"), lambda each=each: fit(f"cost ~ {each}")) for each in ("I(age > 5)", "age > 5", "region == 'n'", "I(age & visits)", "age and region", "I(age != 3)", "I(1 if age else 0)")],
    *[(InputError, "user", lambda each=each: private.phreg("Surv(days, smoker) ~ age", people().assign(id=each), bounds=BOUNDS, user="id", epsilon=1, delta=1e-6)) for each in ([None, *map(str, range(59))], [np.nan, *range(59)], pd.array([pd.NA, *range(59)], dtype="Int64"), pd.Series([pd.NA, *map(str, range(59))], dtype="string"))],
    # So is what R writes otherwise
    *[(InputError, ("R", remedy), lambda each=each: fit(f"cost ~ {each}")) for each, remedy in OF_R.items()],
    *[(InputError, "random effects", lambda each=each: fit(f"cost ~ {each}")) for each in ("age + (1 | region)", "age + (age|region)", "age | region")],
    (InputError, ("Formula", "str(formula)", "deparse1(formula)"), lambda: fit(Formula())),
    (InputError, "resolution", lambda: table_one(resolution={"region": 1})),
    (InputError, "cost", lambda: fit(bounds={"age": (18, 90)})),
    *[(InputError, "age", lambda each=each: fit(bounds={**BOUNDS, "age": each})) for each in ((90, 18), 3)],
    *[(InputError, name, lambda each=each, name=name: fit(**{name: each})) for name in ("bounds", "levels", "center", "scale") for each in ([("age", 18, 90)], (18, 90), "age", 5)],
    *[(InputError, "bounds", lambda each=each, model=model: fit(model=model, bounds=each)) for model in (private.logit, private.table_one, private.phreg, private.survival) for each in ([(18, 90)], 5)],
    (InputError, "cost", lambda: private.ols("cost ~ age", people(), epsilon=1.0, delta=1e-6)),
    # Keywords of the estimator that follow from the formula
    *[(InputError, name, lambda name=name: fit(**{name: 1})) for name in ("rng", "replicates", "row_mask", "user_ids", "family", "intercept", "offset_bounds", "X")],
    *[(InputError, name, lambda name=name, value=value: table_one(**{name: value})) for name, value in BAD_OF_TABLES.items()],
    (InputError, "person_weight", lambda: private.phreg("Surv(days, smoker) ~ age", people(), bounds=BOUNDS, person_weight="equal", epsilon=1, delta=1e-6)),
    *[(InputError, name, lambda name=name, value=value: fit().bin_fit(people(), epsilon=1, delta=1e-6, **{name: value})) for name, value in (("residual_bound", 0), ("residual_bound", "a"), ("replicates", 2), ("coef", 1))],
    (InputError, "interval", lambda: fit().marginal_means("region", interval=None)),
    (InputError, "name must be a category", lambda: fit().marginal_means(["region"])),
    (InputError, "r_matrix must have finite numbers", lambda: constraints_of([1e300, 0.0], ["x", "z"])),
    (InputError, "region", lambda: fit(levels={"region": ["n", "x"]})),
    (InputError, "age", lambda: fit(levels={"age": ["a", "b"]})),
    (InputError, "height", lambda: fit(center={"height": 1.0})),
    (InputError, "age", lambda: fit(frame=people().drop(columns="age"))),
    *[(InputError, "age", lambda each=each: fit(frame=people().assign(age=each))) for each in (np.nan, "old", 1j, DAY)],
    (InputError, ("'age'", "masked"), lambda: fit(frame=MASKED)),
    *[(InputError, ("'age'", "one value"), lambda each=each: fit("cost ~ age").predict(each)) for each in ({"age": 50.0}, people().iloc[0])],
    (InputError, "index", lambda: fit(frame={**people().to_dict("series"), "age": people()["age"][::-1]})),
    (InputError, ("'smoker'", "event"), lambda: fit("smoker ~ age", CODED, private.logit)),
    (InputError, "phreg", lambda: fit("Surv(months, died) ~ age")),
    (InputError, ("'smoker'", "(0, 1)"), lambda: fit("Surv(days, smoker) ~ age", CODED, private.phreg, periods=[0, 9])),
    (InputError, "must be a column", lambda: fit("I(1 - smoker) ~ age", CODED, private.logit)),
    (InputError, "'a' once", lambda: fit("y ~ a", TWICE, bounds={"y": (0, 2), "a": (0, 2)})),
    (InputError, "rename", lambda: read_formula("y ~ e\u0301\u0323", ALIKE)),
    (InputError, "rename", lambda: design_of("y ~ `Intercept` + a", dict.fromkeys(("y", "a", "Intercept"), NumberColumn(1, 2)))),
    *[(InputError, "'Intercept'", lambda text=text: design_of(text, {"y": NumberColumn(0, 1), "Intercept": CategoryColumn(("a", "b"))})) for text in ("y ~ Intercept", "y ~ 0 + Intercept")],
    (InputError, "'log(y)'", lambda: design_of("log(y) ~ `log(y)` + a", dict.fromkeys(("y", "a", "log(y)"), NumberColumn(1, 2)))),
    (InputError, "'offset(a)'", lambda: design_of("y ~ `offset(a)` + offset(a)", dict.fromkeys(("y", "a", "offset(a)"), NumberColumn(1, 2)))),
    *[(InputError, "'region'", lambda each=each: fit(levels={"region": each})) for each in (["n"], {"n", "s"}, "ns", [1, "1"], [1, 1.0], ["n", None], ["n", pd.NA], [(1,), (2,)], [("n", "s"), ("w", "o")], [range(2), range(3)], [["n"], ["s"]], [DAY, DAY + DAY.resolution])],
    *[(InputError, "'age'", lambda each=each: fit(bounds={**BOUNDS, "age": each})) for each in (("18", "90"), (False, True), (18, np.inf), (None, 90), (1j, 90))],
    *[(InputError, "bounds", lambda each=each: fit(bounds={**BOUNDS, "age": each})) for each in ((0, 1e-61), (0, 5e-324), (-1e308, 1e308), (0, 1e31))],
    (InputError, "bounds", lambda: fit(scale={"age": 1e-300})),
    (InputError, ("I(age * 1e-61)", "unit"), lambda: fit("cost ~ I(age * 1e-61)")),
    (InputError, "1", lambda: fit(bounds={**BOUNDS, 1: (0, 1)})),
    *[(InputError, "scale['age']", lambda each=each: fit(scale={"age": each})) for each in (0, -1, np.nan, "2")],
    *[(InputError, "center['age']", lambda each=each: fit(center={"age": each})) for each in (17, np.nan, "40")],
    *[(InputError, "'age'", lambda each=each: fit(frame=people().assign(age=pd.Series([each] * 60, dtype=object)))) for each in ("1_0", b"19", np.timedelta64(30, "D"), 10**400)],
    (InputError, "length", lambda: fit(frame={name: np.array(each)[: 60 - (name == "age")] for name, each in people().items()})),
    *[(InputError, each, lambda each=each: fit(**{each: TOLD})) for each in ("user", "weights", "interval", "epsilon", "formula")],
    *[(InputError, "'age'", lambda each=each: fit(**{each: {"age": TOLD}})) for each in ("bounds", "levels")],
    (InputError, "periods", lambda: private.phreg("Surv(days, smoker) ~ age", people(), periods=list(TOLD), bounds=BOUNDS, epsilon=1, delta=1e-6)),
    (InputError, ("'left'", "swap"), lambda: private.phreg("Surv(left, entered, died) ~ age", {"entered": [1.0], "left": [4.0], "died": [1], "age": [0.5]}, periods=[0, 5], bounds={"age": (0, 1)}, epsilon=1, delta=1e-6)),
    (InputError, "offset", lambda: of_rates("visits ~ age:offset(log(days))")),
    (InputError, "offset", lambda: of_rates("visits ~ age + offset(days, 2)")),
    (InputError, "weeks", lambda: of_rates("visits ~ age + offset(log(weeks))")),
    (InputError, "region", lambda: of_rates("visits ~ age + exposure(region)")),
    (InputError, "covariate", lambda: of_rates("visits ~ offset(log(days))")),
    (InputError, "I(visits - log(days))", lambda: fit("visits ~ age + offset(log(days))")),
    # Names that look the same
    *[(InputError, (ascii(one), ascii(other), "look different"), lambda one=one, other=other, more=more: alike(one, other, one, bounds={"y": (0, 1), one: (0, 1), **dict.fromkeys([other] * more, (0, 1))})) for one, other in SAME for more in (0, 1)],
    *[(InputError, "levels", lambda one=one, other=other: alike(one, other, other, bounds={"y": (0, 1)}, levels={other: [one, other]})) for one, other in SAME],
    *[(InputError, "rename the column", lambda text=text: design_of(text, LIKE_TERMS)) for text in ("y ~ C(g) + `C(g)`", "y ~ g*h + `g:h`", "y ~ log(a) + `log(a)`")],
    # Missing cells, and categories that pandas knows
    *[(InputError, named, lambda each=each: fit("cost ~ age + region", impute=each)) for each, named in (({"age": 3}, "within the bounds"), ({"age": np.nan}, "within the bounds"), ({"region": "z"}, "levels"), ({"other": 1}, "other"), ([1], "dictionary"))],
    (InputError, "impute={'age': 54", lambda: fit("cost ~ age", people().assign(age=[18.0, np.nan] * 30))),
    (InputError, ("levels={'region'", "state public ones", "levels={'region': frame['region'].cat.cat"), lambda: fit("cost ~ region", PANDAS, levels={})),
    # A response that clipping or arithmetic may spoil, before a row is read: one bound after another would find the largest
    *[(InputError, "response", lambda left=left, ends=ends, model=model: model(f"{left} ~ age", None, bounds={"visits": ends, "age": (0, 1)}, epsilon=1.0, delta=1e-6)) for left, ends in SPOILED for model in (private.poisson, private.logit)],
    # Times in other regressions, and covariates of curves
    *[(InputError, "phreg", lambda model=model: fit("Surv(days, smoker) ~ age", model=model)) for model in (private.ols, private.poisson)],
    *[(InputError, "formula", lambda text=text: fit(text, model=private.survival, bounds=TIMES)) for text in ("Surv(days, smoker) ~ age", "Surv(days, smoker) ~ region + age", "Surv(age, days, smoker) ~ region")],
]  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_refused_by_what_is_wrong(formula):
    refused(lambda: design_of(formula, DECLARED), InputError, *words(FORMULAS[formula]))


@refusals(ROWS)
def test_declarations_and_frames_are_refused_by_name(error, named, use):
    refused(use, error, *words(named), hidden=("123456",))
