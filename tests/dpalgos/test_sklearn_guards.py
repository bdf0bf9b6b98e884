"""What scikit-learn does around a private fit: refused, warned about, or safe, as the guide's table says."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils import all_estimators

import dpalgos
import dpalgos.api
from dpalgos import InputError, PrivacyWarning
from dpalgos.release.transcript import Transcript
from dpalgos.sklearn import DPLinearRegression, DPLogisticRegression
from tests.dpalgos.silence import ScriptedReleases

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
    values = {
        "estimator": model,
        "regressor": model,
        "init": model,
        "estimators": [("a", model), ("b", model)],
        "steps": [("a", model)],
        "param_grid": {"epsilon": [1.0]},
        "param_distributions": {"epsilon": [1.0, 2.0]},
        "min_samples": 60,
        "cv": 2,
        "n_estimators": 2,
        "max_iter": 1,
        "n_iter": 1,
        "random_state": 0,  # a code book at random may have a constant column, which is not fitted
    }
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
            if name in FAIL_LATER:  # after the fit inside
                pass
            else:
                raise
    return "warned" if any(each.category is PrivacyWarning for each in caught) else "safe"


TRANSFORMERS = {"ColumnTransformer", "FeatureUnion"}  # they hold no model


@pytest.mark.parametrize("name", sorted(name for name, _ in meta_estimators()))
@pytest.mark.filterwarnings("ignore")
def test_the_guide_says_what_a_meta_estimator_does_around_a_private_fit(name):
    kind = dict(meta_estimators())[name]
    assert name in guide()
    if name in TRANSFORMERS | {"FrozenEstimator"}:
        assert guide()[name] == "safe"
    else:
        assert outcome(name, kind) == guide()[name]


def test_the_guide_names_meta_estimators_only():
    assert set(guide()) == {name for name, _ in meta_estimators()}


def test_a_meta_estimator_that_is_not_known_is_warned_about():
    class Several(BaseEstimator):
        def fit(self, X, y):
            return DPLinearRegression(**MODEL).fit(X, y)

    Several.__module__ = "sklearn.later"
    with pytest.warns(PrivacyWarning, match="Several"):
        Several().fit(*table())


@pytest.mark.parametrize(
    ("step", "learned"),
    [
        (
            OneHotEncoder(categories=[[0.0, 1.0]] * 3, min_frequency=10, sparse_output=False),
            "infrequent_categories_",
        ),
        (
            OneHotEncoder(categories=[[0.0, 1.0]] * 3, max_categories=2, sparse_output=False),
            "infrequent_categories_",
        ),
        (OrdinalEncoder(categories=[[0.0, 1.0]] * 3, min_frequency=10), "infrequent_categories_"),
        (StandardScaler(), "mean_"),
        (PCA(2), "components_"),
        (SelectKBest(f_regression, k=2), "scores_"),
        (MinMaxScaler(), "data_max_"),
        (SimpleImputer(), "statistics_"),
        (TargetEncoder(target_type="continuous"), "encodings_"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_a_step_that_learned_from_rows_is_warned_about(step, learned):
    X, y = table()
    with pytest.warns(PrivacyWarning, match=learned):
        make_pipeline(step, DPLinearRegression(**MODEL)).fit((X > 0) * 1.0, y)


def test_a_transformer_of_the_response_is_examined():
    learns = TransformedTargetRegressor(DPLinearRegression(**MODEL), transformer=StandardScaler())
    with pytest.warns(PrivacyWarning, match="mean_"):
        learns.fit(*table())
    public = FunctionTransformer(np.arcsinh, np.sinh)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
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
}


class Scripted(ScriptedReleases, Transcript):
    pass


BOUNDS = {"covariate_bound": 1.0, "response_bound": 1.0, "sparsity": 2}
SETTINGS = {
    "DPSparseLinearRegression": BOUNDS,
    "DPMean": {"value_bound": 1.0},
    "DPSparseMean": {"value_bound": 1.0, "sparsity": 2},
    "DPBoundedMean": {"lower": -1.0, "upper": 1.0},
}


def responses(name, y):
    codes = {"DPLogisticRegression": y > 0, "DPMultinomialRegression": np.digitize(y, [-0.3, 0.3])}
    counts = {"DPPoissonRegressor": np.round(np.abs(3 * y))}
    return (codes | counts).get(name, y)


@pytest.mark.parametrize("interval", [None, 0.9])
@pytest.mark.parametrize("name", [each for each in dpalgos.sklearn.__all__ if each.startswith("DP")])
def test_a_fitted_model_keeps_nothing_but_what_was_released(name, interval, monkeypatch):
    """Fitted on other rows with the same releases it is the same, number by number."""
    kind, kept, script = getattr(dpalgos.sklearn, name), [], ()
    model = kind(**MODEL, **SETTINGS.get(name, {}), interval=interval)
    monkeypatch.setattr(dpalgos.api, "Transcript", Scripted)
    for other in (False, True):
        X, y = table(other=other)
        Scripted.script, Scripted.published = script, []
        try:
            model.fit(X, responses(name, y))
        except InputError:
            pytest.skip("has no intervals")
        kept.append({each: value for each, value in vars(model).items() if each not in model.get_params()})
        shown = str(model.summary()), model._repr_html_() if hasattr(model, "_repr_html_") else ""
        kept[-1]["shown"] = shown
        script = tuple(Scripted.published)
    one, again = kept
    assert set(one) - {"shown"} <= ATTRIBUTES
    for each in one:
        np.testing.assert_equal(one[each], again[each], err_msg=each)
