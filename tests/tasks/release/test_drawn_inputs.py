"""Two requests are one question of the ledger only if they draw from the same inputs."""

import copy
import dataclasses
import hashlib
import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.columns import Column, Declaration, Marks
from data.errors import AnswerLost
from data.ledger import Ledger, PrivacyCost, Question
from data.ledger.charges import canonical_json
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params, run_estimator
from dpalgos.core.spend import Spend
from dpalgos.formula.columns import NumberColumn
from dpalgos.formula.design import design_of
from dpalgos.hardened_release import releasable
from dpalgos.release.noise_source import NoNoise
from dpalgos.rows.sample import Sample
from tasks.errors import SpecError
from tasks.own_table.row_design import RowDesign
from tasks.release.question import question_parameters
from tasks.release.release import plan_release
from tasks.release.request import read_request
from tasks.release.rows import columns_read, read_rows
from tests.builders import declared_column, refused
from tests.contract.forms import keywords, whose
from tests.data.ledger.charging import charged
from tests.tasks.analyst_tables import completed, edited, init_study, initialized, release

QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def is_releasable(form):
    try:
        return bool(releasable(form.name, form.example)) and "tight" in form.calibrations
    except dpalgos.InputError:
        return False


FORMS = [form for each in dpalgos.catalog() for form in each.variants if is_releasable(form)]
MEANS = [form for form in FORMS if form.task == "mean" and "public_X" not in form.example]
FORMULA = design_of("cost ~ age + weight", {n: NumberColumn(0, 1) for n in ("cost", "age", "weight")})
DESIGN = RowDesign(
    columns=(Column.in_units("b", 1.0, 2.0), Column.in_units("a")),
    response=Column.in_units("cost", 0.5, 0.25),
    user_id="person",
    intercept=True,
    declaration=Declaration(
        columns=(
            declared_column("b", lower=0.0, upper=1.0, impute=0.5, transform="log"),
            declared_column(
                name="a", categories=("x", "y"), missing=("?",), others="y", levels={"y": ("z",)}
            ),
            declared_column("~ age", derived=FORMULA),
        ),
        marks=Marks(",", "."),
        missing="drop",
        clip=True,
        n_rows=100,
        user_id="person",
        n_users=50,
    ),
    formula=FORMULA.described,
)


NOT_OF_A_FILE = {"dtype", "unit", "source", "center", "scale", "periods"}  # public facts that decide no row
NOT_OF_UNITS = {item.name for item in dataclasses.fields(Column)} - {"name", "center", "scale"}


def leaves(value, path=()):
    """Yield the paths to all numbers, texts and absent values of what is drawn from."""
    if isinstance(value, Column):
        unread = NOT_OF_A_FILE if path[0] == "declaration" else NOT_OF_UNITS
        unread = {*unread, "lower", "upper"} if value.categories else unread
        for item in dataclasses.fields(value):
            if item.name not in unread:
                yield from leaves(getattr(value, item.name), (*path, item.name))
    elif dataclasses.is_dataclass(value) and value is not FORMULA:
        for item in dataclasses.fields(value):
            # Text with another separator is the same data; missing user ids are refused.
            # Numbers are compared as they were read. Columns of a time state its cut points.
            if item.name in ("separator", "missing_codes", "marks"):
                continue
            yield from leaves(getattr(value, item.name), (*path, item.name))
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    elif isinstance(value, tuple | list) and value:
        for k, each in enumerate(value):
            yield from leaves(each, (*path, k))
    else:
        yield path


def other(value):
    if value is FORMULA:
        return design_of("cost ~ weight + age", value.declared)
    if isinstance(value, str) and value == "log":
        return ""
    if isinstance(value, bool) or value is None:
        return "another" if value is None else not value
    return value + 1 if isinstance(value, int | float | np.ndarray) else f"{value} another"


def with_another(value, path):
    """Return a copy of a value that differs at one path."""
    if not path:
        return other(value)
    name, *rest = path
    if isinstance(value, tuple | list):
        return tuple(with_another(each, rest) if k == name else each for k, each in enumerate(value))
    if isinstance(value, Mapping):
        return {**value, name: with_another(value[name], rest)}
    changed = copy.copy(value)
    object.__setattr__(changed, name, with_another(getattr(value, name), rest))
    return changed


@pytest.mark.parametrize("path", [*leaves(DESIGN)], ids=str)
def test_every_field_of_the_rows_is_part_of_the_question(path):
    estimator = dpalgos.get_estimator("preconditioned_regression")
    params = build_params(estimator, BUDGET)
    changed = with_another(DESIGN, path)
    assert question_parameters(estimator, params, changed) != question_parameters(estimator, params, DESIGN)


def test_a_question_of_version_2_1_is_the_same_question():
    params = build_params(dpalgos.get_estimator("preconditioned_regression"), BUDGET)
    estimator = dpalgos.get_estimator("preconditioned_regression")
    question = question_parameters(estimator, params, DESIGN, as_in_3_0=True)
    assert set(question["keywords"]) == {*BUDGET, "calibration", "interval", "interval_target", "intercept"}
    digest = hashlib.sha256(canonical_json(question["rows"]).encode()).hexdigest()
    assert digest == "b3eeb7511c717f80c52868b5a5a3a8b4cefbbcf0cd7de7a5f92d6872ab5eb802"


def test_a_question_of_version_3_0_has_its_keywords():
    settings = {"preconditioned_glm": {"family": "logistic"}, "cumulative_counts": {"chain": 2}}
    found = {
        name: set(
            question_parameters(each, build_params(each, {**BUDGET, **settings[name]}), DESIGN)["keywords"]
        )
        for name in settings
        for each in [dpalgos.get_estimator(name)]
    }
    of_glm = {"family", "n_classes", "interval", "interval_target", "intercept", "offset_bounds"}
    assert {*BUDGET, "calibration", *of_glm} == found["preconditioned_glm"]
    assert {*BUDGET, "calibration", "chain"} == found["cumulative_counts"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.label)
def test_every_keyword_of_an_estimator_is_part_of_the_question(form):
    params = build_params(form, keywords(form, "tight"))
    d = max([2, *(len(v) for v in vars(params).values() if isinstance(v, tuple))])
    columns = tuple(Column.in_units(f"x{k}") for k in range(d))
    before = question_parameters(form, params, RowDesign(columns=columns))
    for path in leaves({item.name: getattr(params, item.name) for item in dataclasses.fields(params)}):
        after = question_parameters(form, with_another(params, path), RowDesign(columns=columns))
        assert after != before, path


@pytest.mark.parametrize("form", MEANS, ids=lambda form: form.label)
def test_a_mean_does_not_depend_on_the_order_of_columns(form):
    """So that the question of a mean may leave the order out."""
    rng, order = np.random.default_rng(0), [3, 0, 4, 2, 1]
    X = rng.uniform(-1, 1, (400, 5)) * [1, 0.5, 0.2, 0.9, 0.7] + [0.1, 0, 0.3, -0.2, 0]

    def answer(columns):
        noise = NoNoise([np.random.default_rng(0)])
        spend = Spend(noise, form.relation or Relation.CENTRAL)
        asked = {**keywords(form, "tight"), "epsilon": 5.0}
        for name, value in asked.items():
            if isinstance(value, tuple) and len(value) == 5:
                asked[name] = tuple(value[j] for j in columns)
        sample = Sample(X[:, columns], None, user_ids=whose(form, len(X)))
        found = run_estimator(form, sample, build_params(form, asked), spend)[..., 0]
        widths = spend.record.interval.half_width[..., 0] if spend.record.interval else found
        return np.stack([found, widths])

    np.testing.assert_allclose(answer(order), answer(range(5))[:, order], rtol=0, atol=1e-12)


N = 400


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N)).clip(-2, 2).round(3)
    table = pd.DataFrame({"a": a, "b": b, "one": 1.0, "y": (rng.random(N) < 0.5) * 1, "c": abs(a) + 0.5})
    table["pre-post"], table["pre"], table["post"] = rng.uniform(0, 1, (3, N)).round(3)
    table.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


@pytest.fixture
def ledger(folder):
    ledger = Ledger(folder / "home")
    ledger.open_dataset("t", 10.0, 1e-5)
    return ledger


def asked(folder, *, x='["a", "one"]', bounds="", params="", family="logistic", head=""):
    file = folder / "release.toml"
    columns = f'[columns]\nx = {x}\ny = "y"\n' if x else ""
    params = f'family = "{family}"\n{params}'
    file.write_text(f'{head}[dataset]\nname = "t"\n{columns}[bounds]\n{bounds}\n[params]\n{params}\n')
    return file


def planned(folder, config, ledger, data="t.csv"):
    request = read_request(config, "preconditioned_glm", **BUDGET)
    reader = ledger.fingerprinter({}, "t", read=columns_read(request))
    return plan_release(request, read_rows(reader, folder / data, request), reader)


def drawn_from(plan):
    """Return all that the draw gets: estimator, keywords, rows, responses, and names of the answer.

    The columns between an offset and an intercept are in order of their names.
    """
    request, sample, params = plan.request, plan.sample, plan.drawing.params
    names, k = request.units.coef_names, sample.X.shape[1]
    free = slice(int(params.offset_bounds is not None), k - int(params.intercept))
    order = np.arange(k)
    if request.design.formula is None:
        order[free] = sorted(order[free], key=lambda j: names[j])
    codes = None if sample.user_codes is None else sample.user_codes.tobytes()
    arrays = sample.X[:, order].tobytes(), None if sample.y is None else sample.y.tobytes(), codes
    back = [each.tobytes() for each in request.units.affine] if request.design.formula else []
    return repr((plan.drawing.estimator.name, params, sorted(names), arrays, back))


def test_requests_are_one_question_if_and_only_if_they_draw_from_the_same_inputs(folder, ledger):
    plans = [planned(folder, asked(folder, **each), ledger) for each in QUESTIONS["requests"]]
    for one, two in itertools.combinations(plans, 2):
        same = drawn_from(one) == drawn_from(two)
        assert (one.question.id == two.question.id) == same, (one.drawing.params, two.drawing.params)
    n_spelled_twice = 5
    assert len({plan.question.id for plan in plans}) == len(plans) - n_spelled_twice


def test_the_bound_of_weights_is_part_of_the_question_without_a_study_file(folder, ledger):
    plans = []
    for bound in (3.0, 2.0, 3.0):
        config = asked(folder, bounds=f"max_weight = {bound}")
        edited(config, 'y = "y"', 'y = "y"\nweights = "c"')
        plans.append(planned(folder, config, ledger))
    one, two, again = (plan.question.id for plan in plans)
    assert one == again != two


def test_declarations_and_formulas_are_one_question_only_if_they_draw_from_the_same_inputs(folder, ledger):
    plans = []
    init_study("mine", folder / "t.csv", folder=folder, response="y", family="logistic")
    bounds = {"a": (-2, 2), "b": (-2, 2), "c": (0.1, 3), "one": (0, 2)}
    written = completed(folder / "mine.toml", bounds, {}).read_text()
    for old, new in QUESTIONS["studies"]:
        (folder / "mine.toml").write_text(written.replace(old, new, 1) if old else written)
        config = asked(folder, x="")
        edited(config, 'name = "t"', 'name = "t"\nstudy = "mine.toml"')
        edited(config, "[bounds]", '[columns]\nx = ["a", "b", "c"]\ny = "y"\n[bounds]')
        plans.append(planned(folder, config, ledger))
    (folder / "mine.toml").write_text(written)
    for formula in QUESTIONS["formulas"]:
        config = asked(folder, x="", head=f"formula = '{formula}'\n")
        edited(config, 'name = "t"', 'name = "t"\nstudy = "mine.toml"')
        plans.append(planned(folder, config, ledger))
    for one, two in itertools.combinations(plans, 2):
        if drawn_from(one) != drawn_from(two):
            assert one.question.id != two.question.id
    assert plans[-1].question.id == plans[len(QUESTIONS["studies"])].question.id


@pytest.mark.parametrize("exact", ["00", ""])
def test_an_answer_of_an_earlier_version_that_cannot_be_matched_is_named_before_a_charge(
    folder, ledger, exact
):
    config = asked(folder)
    question = planned(folder, config, ledger).question
    stated = {"x": ["a", "one"], "y": "y", "settings": {"family": "logistic"}}
    about = {"dataset": "t", "content": question.content, "estimator": question.estimator, **BUDGET}
    earlier = Question(parameters=stated, exact=exact, **about)
    charge = charged(ledger, earlier, PrivacyCost(rho=0.01), lambda *_: None)
    ledger.store(charge, {"estimate": {"a": 1.0, "one": 2.0}})
    request = ledger, "preconditioned_glm", folder / "t.csv", config
    refused(lambda: release(*request, **BUDGET), AnswerLost, "--again", "ledger show", "preconditioned_glm")
    assert len(ledger.account("t").charges) == 1
    paid = release(*request, **BUDGET, again=True)
    assert not paid.replayed
    assert release(*request, **BUDGET).estimate == paid.estimate
    assert len(ledger.account("t").charges) == 2
    assert not release(*request, epsilon=2.0, delta=1e-6).replayed  # of another budget


def test_stored_answers_of_this_version_bar_no_other_question(folder, ledger):
    for request in (QUESTIONS["requests"][k] for k in (1, 2, 3, 5)):
        config = asked(folder, **request)
        assert not release(ledger, "preconditioned_glm", folder / "t.csv", config, **BUDGET).replayed
    config = asked(folder, bounds="max_weight = 3.0")
    edited(config, 'y = "y"', 'y = "y"\nweights = "c"')
    assert not release(ledger, "preconditioned_glm", folder / "t.csv", config, **BUDGET).replayed
    assert len(ledger.account("t").charges) == 5


@pytest.mark.parametrize(("family", "more"), [("poisson", ""), ("multinomial", "n_classes = 3\n")])
def test_a_response_whose_bounds_would_spoil_it_is_refused_without_its_file(family, more, tmp_path):
    """Refusals of rows, for one bound or number of classes after another, would find the largest response."""
    table = pd.DataFrame({"visits": [0, 3, 9] * 20, "age": range(60)})
    bounds = {"visits": (0, 9 if more else 5.5), "age": (0, 90)}
    study = initialized(tmp_path, table, bounds=bounds, response="visits")
    (tmp_path / "table.csv").unlink()
    config = tmp_path / "release.toml"
    columns = f'[dataset]\nname = "t"\nstudy = "{study.name}"\n[columns]\nx = ["age"]\ny = "visits"\n'
    config.write_text(f'{columns}[params]\nfamily = "{family}"\n{more}')
    use = lambda: read_request(config, "preconditioned_glm", **BUDGET)  # noqa: E731
    refused(use, SpecError, "bounds of the response")
