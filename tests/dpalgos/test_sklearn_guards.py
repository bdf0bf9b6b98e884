"""What scikit-learn does around a private fit: refused, warned about, or safe, as the guide's table says."""

import datetime
import decimal
import inspect
import re
import traceback
import warnings
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn import preprocessing
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.utils import all_estimators

import dpalgos
import dpalgos.sklearn
from dpalgos import InputError, PrivacyWarning, SeededNoiseWarning
from dpalgos.sklearn import DPLinearRegression, DPLogisticRegression, DPMultinomialRegression, PublicScaler
from tests.builders import refused
from tests.dpalgos.silence import replayed

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "library.md"
MODEL = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
TAKE_MODELS = {"estimator", "estimators", "regressor", "steps", "transformers", "transformer_list"}
# A private answer from few rows is near a constant, of which they make nothing.
FAIL_LATER = {"RANSACRegressor", "GradientBoostingClassifier", "TunedThresholdClassifierCV"}
FIRST_MODELS = {"GradientBoostingClassifier", "GradientBoostingRegressor"}  # by their parameter init


def table(n=120, other=False):
    rng = np.random.default_rng(5 if other else 0)
    X = rng.uniform(-1, 0 if other else 1, (n, 3))
    return X, X @ [1.0, -0.5, 0.0] + 0.1 * rng.standard_normal(n)


def guide():
    """Return what the guide's table says: class → safe, warned or refused."""
    rows = re.findall(r"^\| (`.*?`) \| (safe|warned|refused) \|", GUIDE.read_text(), re.MULTILINE)
    return {name: said for names, said in rows for name in re.findall(r"`(\w+)`", names)}


def meta_estimators():
    for name, kind in all_estimators():
        if name in FIRST_MODELS or set(inspect.signature(kind).parameters) & TAKE_MODELS:
            yield name, kind


def made(name, kind):
    is_classifier = "Classifier" in name or name == "ClassifierChain"
    classes = [-1.0, 1.0] if name == "OutputCodeClassifier" else [0, 1]
    model = DPLogisticRegression(**MODEL, classes=classes) if is_classifier else DPLinearRegression(**MODEL)
    values = dict.fromkeys(("estimator", "regressor", "init"), model)
    values |= {"estimators": [("a", model), ("b", model)], "steps": [("a", model)]}
    values |= {"param_grid": {"epsilon": [1.0]}, "param_distributions": {"epsilon": [1.0, 2.0]}}
    values |= {"min_samples": 60, "cv": 2, "n_estimators": 2, "max_iter": 1, "n_iter": 1}
    values["random_state"] = 0  # a code book at random may have a constant column, which is not fitted
    known = set(inspect.signature(kind).parameters) & set(values)
    known -= {"cv"} if "Chain" in name else set()
    known -= {"init"} if name not in FIRST_MODELS else set()
    X, y = table()
    if is_classifier:
        y = (y > 0).astype(int)
    if "MultiOutput" in name or "Chain" in name:
        y = np.column_stack([y, y])
    if name == "SelfTrainingClassifier":
        y[:5] = -1
    return kind(**{each: values[each] for each in known}), X, y


def outcome(name, kind):
    """Return whether a private fit inside is safe, warned about or refused."""
    whole, X, y = made(name, kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            whole.fit(X, y)
        except (InputError, ValueError) as error:
            if isinstance(error, InputError) or "doesn't support sample_weight" in str(error):
                return "refused"
            if name not in FAIL_LATER:  # after the fit inside
                raise
    return "warned" if any(each.category is PrivacyWarning for each in caught) else "safe"


@pytest.mark.parametrize("name", sorted(name for name, _ in meta_estimators()))
@pytest.mark.filterwarnings("ignore")
def test_the_guide_says_what_a_meta_estimator_does_around_a_private_fit(name):
    is_safe = name in ("ColumnTransformer", "FeatureUnion", "FrozenEstimator")  # they fit no model
    assert guide()[name] == ("safe" if is_safe else outcome(name, dict(meta_estimators())[name]))


def test_the_guide_names_meta_estimators_only():
    assert set(guide()) == {name for name, _ in meta_estimators()}


def test_a_meta_estimator_that_is_not_known_is_warned_about():
    class Several(BaseEstimator):
        def fit(self, X, y):
            return DPLinearRegression(**MODEL).fit(X, y)

    Several.__module__ = "sklearn.later"
    with pytest.warns(PrivacyWarning, match="Several"):
        Several().fit(*table())


BINARY = {"categories": [[0.0, 1.0]] * 3}
LEARNING = [
    (preprocessing.OneHotEncoder(**BINARY, min_frequency=10, sparse_output=False), "infrequent_categories_"),
    (preprocessing.OneHotEncoder(**BINARY, max_categories=2, sparse_output=False), "infrequent_categories_"),
    (preprocessing.OrdinalEncoder(**BINARY, min_frequency=10), "infrequent_categories_"),
    (preprocessing.StandardScaler(), "mean_"),
    (PCA(2), "components_"),
    (SelectKBest(f_regression, k=2), "scores_"),
    (preprocessing.MinMaxScaler(), "data_max_"),
    (SimpleImputer(), "statistics_"),
    (SimpleImputer(strategy="constant"), "statistics_"),  # it drops empty columns
    (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), "indicator_"),
    (SimpleImputer(strategy="constant", keep_empty_features=True), ""),
    (preprocessing.TargetEncoder(target_type="continuous"), "encodings_"),
    (preprocessing.OneHotEncoder(**BINARY, sparse_output=False), ""),
    (PublicScaler(center=0.5, scale=2.0), ""),
    ("passthrough", ""),
]


@pytest.mark.parametrize(("step", "learned"), LEARNING, ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore")
def test_a_step_that_learned_from_rows_is_warned_about_and_a_public_one_is_not(step, learned):
    X, y = table()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_pipeline(step, DPLinearRegression(**MODEL)).fit((X > 0) * 1.0, y)
    said = [str(each.message) for each in caught if each.category is PrivacyWarning]
    assert [learned in each for each in said] == [True] * bool(learned)


def test_a_transformer_of_the_response_is_examined():
    learns = TransformedTargetRegressor(
        DPLinearRegression(**MODEL), transformer=preprocessing.StandardScaler()
    )
    with pytest.warns(PrivacyWarning, match="mean_"):
        learns.fit(*table())
    public = preprocessing.FunctionTransformer(np.arcsinh, np.sinh)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        warnings.simplefilter("ignore", SeededNoiseWarning)
        TransformedTargetRegressor(DPLinearRegression(**MODEL), transformer=public).fit(*table())


def test_rows_that_repeat_are_refused_and_parts_of_them_are_several_fits():
    model = DPLinearRegression(**MODEL)
    with pytest.raises(InputError, match="bootstrap=False"):
        BaggingRegressor(model, n_estimators=2).fit(*table())
    with pytest.warns(PrivacyWarning, match="budget="):
        BaggingRegressor(model, n_estimators=2, bootstrap=False, max_samples=0.5).fit(*table())


@pytest.mark.parametrize("labels", [1, 3])
def test_a_refused_fit_leaves_the_model_as_it_was(labels):
    X, y = table()
    model = DPLogisticRegression(**MODEL)
    with pytest.raises(InputError):
        model.fit(X, np.digitize(y, [-9.0, 9.0] if labels == 1 else [-0.3, 0.3]))
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y > 0)
    before = dict(vars(model))
    model.set_params(budget=dpalgos.Budget(epsilon=0.1, delta=1e-6), random_state=None)
    with pytest.raises(InputError):
        model.fit(X[:, :2], y < 0.5)
    assert vars(model.set_params(budget=None, random_state=0)) == before


# All that a fitted model may keep.
ATTRIBUTES = {
    *("n_features_in_", "feature_names_in_", "privacy_spent_", "risk_", "interval_", "classes_"),
    *("coef_", "intercept_", "mean_", "_coef", "_intercept", "_interval_note", "_interval_about"),
    "_seeded",
    *("_result", "_back", "_shift", "levels_"),
    *("_fitted", "_response"),  # parameters of the fit, and the public units of the response
}


MODELS = [name for name in dpalgos.sklearn.__all__ if name.startswith("DP")]
SETTINGS = {
    "DPSparseLinearRegression": {"covariate_bound": 1.0, "response_bound": 1.0, "sparsity": 2},
    "DPMean": {"value_bound": 1.0},
    "DPSparseMean": {"value_bound": 1.0, "sparsity": 2},
    "DPBoundedMean": {"lower": -1.0, "upper": 1.0},
}


def responses(name, y):
    codes = {"DPLogisticRegression": y > 0, "DPMultinomialRegression": np.digitize(y, [-0.3, 0.3])}
    counts = {"DPPoissonRegressor": np.round(np.abs(3 * y))}
    return (codes | counts).get(name, y)


def parts(value):
    """Return the fields of results and events, which are equal to themselves alone."""
    if type(value) is tuple:
        return [parts(each) for each in value]
    return {each: parts(own) for each, own in vars(value).items()} if is_dataclass(value) else value


@pytest.mark.parametrize("interval", [None, 0.9])
@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_keeps_nothing_but_what_was_released(name, interval, monkeypatch):
    """Fitted on other rows with the same releases it is the same, number by number."""
    model = getattr(dpalgos.sklearn, name)(**MODEL, **SETTINGS.get(name, {}), interval=interval)

    def kept(rows):
        X, y = rows
        try:
            model.fit(X, responses(name, y))
        except InputError:
            pytest.skip("has no intervals")
        own = {each: parts(value) for each, value in vars(model).items() if each not in model.get_params()}
        return own | {"shown": (str(model.summary()), getattr(model, "_repr_html_", str)())}

    tables = (table(2_000 if interval else 120, other) for other in (False, True))
    one, again = replayed(monkeypatch, kept, tables)
    assert set(one) - {"shown"} <= ATTRIBUTES
    for each in one:
        np.testing.assert_equal(one[each], again[each], err_msg=each)


SECRETS = ("zebra", "7351", "73,51")
N = 12


def filled(first, kind=object):
    X = np.full((N, 3), 0.5).astype(kind)
    X[0, 0] = first
    return X


CELLS = {  # name → rows (n, 3) with a secret that cannot be read as they are
    "text": filled("zebra"),
    "text array": filled("zebra", "U9"),
    "bytes": filled("zebra", "S9"),
    "comma": filled("73,51"),
    "complex": filled(7351 + 1j, complex),
    "complex object": filled(7351 + 1j),
    "dictionary": filled({"zebra": 7351}),
    "list in a cell": filled(["zebra"]),
    "date": filled(np.datetime64("7351-01-01"), "M8[D]"),
    "date object": filled(datetime.date(7351, 1, 1)),
    "duration": filled(np.timedelta64(7351, "D"), "m8[D]"),
    "huge": filled(10**400 + 7351),
    "decimal": filled(decimal.Decimal("sNaN7351")),
    "infinite": filled(np.inf, float) * 7351,
    "missing": filled(np.nan, float) * 7351,
    "one dimension": np.full(N, 7351.0),
    "no dimension": 7351.0,
    "three dimensions": np.full((N, 3, 2), 7351.0),
    "ragged": [[7351.0] * (2 + i % 2) for i in range(N)],
    "nested": [["zebra", 7351, 0.5]] * N,
    "sparse": scipy.sparse.csr_matrix(np.full((N, 3), 7351.0)),
    "sparse array": scipy.sparse.coo_array(np.full((N, 3), 7351.0)),
    "masked": np.ma.masked_equal(np.full((N, 3), 7351.0), 7351.0),
    "frame": pd.DataFrame(filled("zebra"), columns=list("abc")),
    "categories": pd.DataFrame({"a": pd.Categorical(["zebra"] * N), "b": 1.0, "c": 1.0}),
    "nullable": pd.DataFrame({"a": pd.array([7351, None] * (N // 2), "Int64"), "b": 1.0, "c": 1.0}),
    "arrow text": pd.DataFrame({"a": pd.array(["zebra"] * N, "string"), "b": 1.0, "c": 1.0}),
    "other columns": pd.DataFrame({"a": [7351.0] * N}),
    "fewer rows": np.full((2, 3), 7351.0),
    "wider": np.full((N, 4), 7351.0),
    "record": np.zeros(N, dtype=[("zebra", float), ("b", int)]),
    "string": "zebra 7351",
    "rows by key": {"zebra": [7351.0] * N},
    "a set": {7351.0, "zebra"},
    "generator": (row for row in [["zebra"] * 3] * N),
}
COLUMNS = {
    name: rows[:, 0] if isinstance(rows, np.ndarray) and rows.ndim == 2 else rows
    for name, rows in CELLS.items()
}
COLUMNS |= {
    "mixed kinds": np.array(["zebra", 7351.0, None] * 4, dtype=object),
    "two columns": np.full((N, 2), 7351.0),
    "series": pd.Series(["zebra"] * N),
    "continuous": np.linspace(0.7351, 7351, N),
    "one label": np.full(N, "zebra"),
}


def said(call):
    """Return all that a call says: warnings, the exception with its chain, and its traceback."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            words = []
        except Exception as error:
            words = traceback.format_exception(error)
            while error is not None:
                words += [str(error), repr(error)]
                error = error.__cause__ or error.__context__
    return "\n".join([*words, *(str(each.message) for each in caught)])


def assert_no_secret(call):
    words = said(call)
    assert not [secret for secret in SECRETS if secret in words], words


def model_of(name, **settings):
    return getattr(dpalgos.sklearn, name)(**MODEL, **SETTINGS.get(name, {}), **settings)


ANSWERS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_and_what_follows_quote_no_cell(name):
    (X, y), (rows, of_rows) = table(N), table()
    good = responses(name, y)
    fitted = model_of(name).fit(rows, None if "Mean" in name else responses(name, of_rows))
    for rows in CELLS.values():
        assert_no_secret(lambda rows=rows: model_of(name).fit(rows, good))
        for method in ANSWERS:
            if hasattr(fitted, method):
                assert_no_secret(lambda rows=rows, method=method: getattr(fitted, method)(rows))
        if hasattr(fitted, "score"):
            assert_no_secret(lambda rows=rows: fitted.score(rows, good))
    if "Mean" in name:
        return
    for column in COLUMNS.values():
        assert_no_secret(lambda column=column: model_of(name).fit(X, column))
        assert_no_secret(lambda column=column: fitted.score(X, column))
        assert_no_secret(lambda column=column: fitted.score(X, good, sample_weight=column))


@pytest.mark.parametrize("cells", sorted({*CELLS} - {"other columns", "fewer rows", "wider"}))
def test_rows_that_are_no_numbers_are_refused(cells):
    with pytest.raises((ValueError, TypeError)):
        model_of("DPMean").fit(CELLS[cells])


def test_a_public_scaler_quotes_no_cell():
    scaler = PublicScaler(center=0.5, scale=2.0)
    scaler.fit(np.zeros((N, 3)))
    for rows in CELLS.values():
        fresh = PublicScaler()
        for call in (fresh.fit, fresh.fit_transform, scaler.transform, scaler.inverse_transform):
            assert_no_secret(lambda rows=rows, call=call: call(rows))


def test_declared_levels_quote_no_cell():
    levels = {"a": [1.0, 2.0]}
    for name in ("DPLinearRegression", "DPMean", "DPLogisticRegression"):
        for rows in CELLS.values():
            assert_no_secret(lambda rows=rows, name=name: model_of(name, levels=levels).fit(rows, np.ones(N)))


@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPMultinomialRegression"])
def test_labels_beyond_the_declared_classes_are_refused_unnamed(name):
    X, y = table(N)
    labels = np.where(y > 0, "yes", "zebra")
    assert_no_secret(lambda: model_of(name, classes=["no", "yes"]).fit(X, labels))
    for declared, occur in ((["no", "yes"], y > 0), ([0, 1], labels), ([0, 1], y), (["0", "1"], y > 0)):
        with pytest.raises((InputError, TypeError), match="y must hold"):
            model_of(name, classes=declared).fit(X, occur)


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPMultinomialRegression])
def test_declared_classes_are_published_whatever_occurs(kind):
    X, y = table()
    labels = [np.full(len(y), "well"), np.where(np.arange(len(y)) == 3, "ill", "well")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        warnings.simplefilter("ignore", SeededNoiseWarning)
        fits = [kind(**MODEL, classes=["well", "ill"]).fit(X, each) for each in labels]
    for fit in fits:
        assert list(fit.classes_) == ["ill", "well"]
        assert fit.coef_.shape == fits[0].coef_.shape
        assert "labels" in str(fit.summary())
        assert set(fit.predict(X)) <= {"ill", "well"}
    with pytest.warns(PrivacyWarning, match="classes="):
        kind(**MODEL).fit(X, labels[1])


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPMultinomialRegression])
def test_a_score_takes_one_label_for_each_row(kind):
    X, y = table()
    fitted = kind(**MODEL, classes=[False, True]).fit(X, y > 0)
    assert 0 <= fitted.score(X, y > 0) <= 1
    with pytest.raises(InputError, match="shape"):
        fitted.score(X, (y > 0)[:, None])


def test_labels_that_a_tool_encoded_are_refused_with_the_classes_to_declare():
    model = DPLogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1.0, 1.0), classes=["no", "yes"])
    X, y = np.random.default_rng(0).uniform(-1, 1, (50, 2)), np.arange(50) % 2
    refused(lambda: model.fit(X, y), InputError, "classes=[0, 1]")
    model.set_params(classes=np.array([0, 1], dtype=object)).fit(X, y)
    assert model.classes_.tolist() == [0, 1]


def test_weights_are_routed_to_a_private_model_but_not_by_a_class_that_draws_rows():
    (X, y), weights = table(), np.linspace(0.1, 1, 120)
    model = DPLinearRegression(**MODEL, max_weight=1.0)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_fit_request(sample_weight=True)
        routed = make_pipeline(PublicScaler(), model).fit(X, y, sample_weight=weights)
        alone = DPLinearRegression(**MODEL, max_weight=1.0).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(routed[-1].coef_, alone.coef_)
        bagging = BaggingRegressor(model, n_estimators=2, bootstrap=False)
        for given in ({}, {"sample_weight": weights}):
            refused(
                lambda given=given: bagging.fit(X, y, **given),
                InputError,
                "BaggingRegressor",
                "sample_weight",
            )
        model.set_params(max_weight=None).set_fit_request(sample_weight=False)
        assert bagging.fit(X, y)
