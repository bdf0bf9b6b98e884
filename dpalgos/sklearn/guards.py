"""scikit-learn's meta-estimators around a private fit, and whether its guarantee covers their result.

A fit examines its callers. It refuses callers that repeat rows. It warns about callers that may fit several
times, or that learn from the private rows without noise. docs/guide/library.md has the table.
"""

import inspect
import warnings
from collections.abc import Iterator

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from dpalgos.errors import InputError, PrivacyWarning
from dpalgos.sklearn.units import PublicScaler

# Attributes of fitted transformers that follow from the shape of X.
_SHAPE = ("n_features_in_", "feature_names_in_", "n_samples_seen_", "n_output_features_")

# These fit once on unchanged rows; the other steps of the first four are examined.
_SAFE = {
    *("Pipeline", "ColumnTransformer", "FeatureUnion", "TransformedTargetRegressor"),
    *("SelectFromModel", "FixedThresholdClassifier", "FrozenEstimator"),
}
_REPEATS_ROWS = {"BaggingClassifier", "BaggingRegressor", "AdaBoostClassifier", "AdaBoostRegressor"}
_NOT_COVERED = (
    "which may fit several times and learn from the rows without noise: the guarantee of one fit does not "
    "cover what it returns; pass one dpalgos.Budget as budget= with n_jobs=1 to sum fits, choose settings on "
    "public data, and see docs/guide/library.md"
)


def check_callers(*, has_weights: bool = False) -> None:
    """Refuse or warn if scikit-learn calls ``fit`` in a way that one fit's guarantee does not cover."""
    for sentence in dict.fromkeys(_uncovered(has_weights)):
        warnings.warn(sentence, PrivacyWarning, stacklevel=5)


def _uncovered(has_weights: bool) -> Iterator[str]:
    frame, known, in_parallel = inspect.currentframe(), False, False
    while frame is not None:
        owner = frame.f_locals.get("self", frame.f_locals.get("ensemble"))
        module = str(frame.f_globals.get("__name__", ""))
        if isinstance(owner, BaseEstimator) and type(owner).__module__.startswith("sklearn."):
            known = True
            yield from _about(owner, has_weights)
        elif module == "sklearn.model_selection._validation":
            known = True
            yield f"fit is called by cross-validation, {_NOT_COVERED}"
        in_parallel |= module == "sklearn.utils.parallel"
        frame = frame.f_back
    if in_parallel and not known:
        yield f"fit is called in parallel, {_NOT_COVERED}"


def _about(owner: BaseEstimator, has_weights: bool) -> Iterator[str]:
    """Yield the gaps in the guarantee of one fit if this meta-estimator calls it."""
    kinds = {kind.__name__ for kind in type(owner).__mro__}
    if isinstance(owner, Pipeline):
        for step_name, step in owner.steps[:-1]:
            yield from _about_step(f"step {step_name!r} of the pipeline", step, "pipeline")
    elif isinstance(owner, TransformedTargetRegressor):
        transformer = getattr(owner, "transformer_", None)
        yield from _about_step("the transformer of the TransformedTargetRegressor", transformer, "regressor")
    elif kinds & _REPEATS_ROWS and getattr(owner, "bootstrap", True):
        raise InputError(
            f"{type(owner).__name__} must not draw rows with replacement: a person whose row is drawn "
            "several times counts several times, which the noise does not cover; pass bootstrap=False to a "
            "Bagging class, or fit the private model by itself"
        )
    elif kinds & _REPEATS_ROWS and has_weights:
        raise InputError(
            f"{type(owner).__name__} must not request sample_weight: it passes the rows that it draws as "
            "weights; call set_fit_request(sample_weight=False), or fit the private model by itself"
        )
    elif not kinds & _SAFE:
        yield f"fit is called by {type(owner).__name__}, {_NOT_COVERED}"


def _about_step(what: str, step: object, whole: str) -> Iterator[str]:
    if learned := learned_attributes(step):
        yield (
            f"{what} learned {', '.join(learned)} from the private rows without noise, so the guarantee of "
            f"this fit does not hold for the {whole}; use dpalgos.sklearn.PublicScaler, or public constants"
        )


def learned_attributes(step: object) -> list[str]:
    """Return the attributes that a transformer learned from data, other than the shape of X.

    Transformers inside pipelines, unions and column transformers are examined one by one. The function of a
    FunctionTransformer cannot be examined.
    """
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        lists = {Pipeline: "steps", FeatureUnion: "transformer_list", ColumnTransformer: "transformers_"}
        inner = next(getattr(step, name) for kind, name in lists.items() if isinstance(step, kind))
        return [f"{name}.{attribute}" for name, each, *_ in inner for attribute in learned_attributes(each)]
    if isinstance(step, PublicScaler | FunctionTransformer | str) or step is None:
        return []
    if isinstance(step, OneHotEncoder | OrdinalEncoder) and not isinstance(step.categories, str):
        counted = step.min_frequency is not None or step.max_categories is not None
        return ["infrequent_categories_"] if counted else []
    if isinstance(step, SimpleImputer) and step.strategy == "constant" and step.keep_empty_features:
        return ["indicator_"] if step.add_indicator else []
    learned = [name for name, each in vars(step).items() if name.endswith("_") and each is not None]
    learned = [name for name in learned if name[0] != "_"]
    return [name for name in learned if name not in _SHAPE]
