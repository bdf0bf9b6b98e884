"""The base of the scikit-learn classes: it calls an estimator and keeps the cost of a fit.

scikit-learn's meta-estimators around a private fit, and whether its guarantee covers their result.

A fit examines its callers. It refuses callers that repeat rows. It warns about callers that may fit several
times, or that learn from the private rows without noise. docs/guide/library.md has the table.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.utils.validation import check_is_fitted

from dpalgos.accounting.risk import AttackRisk
from dpalgos.accounting.shared_budget import Budget
from dpalgos.api import estimate
from dpalgos.catalog import get_estimator
from dpalgos.cautions import warn_of_hidden
from dpalgos.coefficients import CoefficientTable, Summary, covered, guarantee_of
from dpalgos.core.persons import EQUAL
from dpalgos.errors import InputError, PrivacyWarning, warn
from dpalgos.interval import warn_of_none, why_none
from dpalgos.release.checks import unmasked
from dpalgos.release.noise_source import generator_of
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.sklearn.checked import PublicScaler, Units, level_columns, units_of_bounds
from dpalgos.spelling import check_labels, check_same_order
from dpalgos.typing import FloatArray, IntArray

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
_UNITS = ("bounds", "y_bounds")
_NOISE = ("random_state", "budget")
_OTHERS = (
    *("epsilon", "delta", "fit_intercept", "interval", "levels", "classes"),
    *(*_NOISE, *_UNITS),
)
_WITHOUT_UNITS = ("person_weight", EQUAL), ("max_rows", None), ("max_weight", None), ("count_bound", None)


def check_callers(*, has_weights: bool = False) -> None:
    """Refuse or warn if scikit-learn calls ``fit`` in a way that one fit's guarantee does not cover."""
    frame, known, in_parallel, gaps = inspect.currentframe(), False, False, list[str]()
    while frame is not None:
        owner = frame.f_locals.get("self", frame.f_locals.get("ensemble"))
        module = str(frame.f_globals.get("__name__", ""))
        if isinstance(owner, BaseEstimator) and type(owner).__module__.startswith("sklearn."):
            known = True
            gaps += _about(owner, has_weights)
        elif module == "sklearn.model_selection._validation":
            known = True
            gaps.append(f"fit is called by cross-validation, {_NOT_COVERED}")
        in_parallel |= module == "sklearn.utils.parallel"
        frame = frame.f_back
    if in_parallel and not known:
        gaps.append(f"fit is called in parallel, {_NOT_COVERED}")
    for sentence in dict.fromkeys(gaps):
        warn(sentence, PrivacyWarning)


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


def _all_or_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Restore the model if a fit is refused: no classes and no shape remain."""

    @wraps(fit)
    def fit_or_undo(self: Any, *args: Any, **keywords: Any) -> Any:
        if "sample_weight" in keywords and not hasattr(self, "max_weight"):
            raise TypeError(
                "fit takes no sample_weight: the guarantee holds if each row counts once, and a weighted row "
                "would need more noise; pass X and y only"
            )
        arguments = {**dict(zip(("X", "y", "user_ids"), args, strict=False)), **keywords}
        for name, values in arguments.items():
            unmasked(name, values)
        check_same_order(**arguments)
        columns = getattr(arguments.get("X"), "columns", ())
        check_labels(self.get_params(deep=False), columns, "the columns of X")
        before = dict(vars(self))
        try:
            return fit(self, *args, **keywords)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fit_or_undo


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A scikit-learn estimator that runs one private estimator of the catalog.

    Attributes
    ----------
    privacy_spent_ : (float, float)
        The ε that the releases prove, and δ. Fits on the same data add up (:class:`dpalgos.Budget`).
    interval_ : (2, d) array or None
        Lower confidence limits in the first row, upper ones in the second, at the confidence level
        ``interval``; the intercept is last. NaN if there is no valid interval. `conf_int` returns a row per
        term.
    """

    _estimator: ClassVar[str]
    _family: ClassVar[str] = ""

    epsilon: float
    delta: float
    interval: float | None = None
    random_state: object = None
    budget: Budget | None = None

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        if "fit" in vars(cls):
            cls.fit = _all_or_nothing(cls.fit)

    def _released(
        self,
        X: FloatArray,
        y: FloatArray | None,
        clipped_cells: Callable[[], IntArray] | None = None,
        user_ids: object = None,
        weights: object = None,
        back: FloatArray | None = None,
        **settings: Any,
    ) -> Result:
        """Return the estimator's result and keep its cost.

        For an interval, ``clipped_cells`` returns the cells of X and y that were clipped to a bound. The
        rows of ``back`` (k, d) are the shown coefficients, by default those of the estimate.
        """
        check_callers(has_weights=weights is not None)
        estimator = get_estimator(self._estimator)
        for name, values in (("user_ids", user_ids), ("sample_weight", weights)):
            if values is not None and not estimator.takes_people:
                raise InputError(f"{name} must be left out for {type(self).__name__}, which does not take it")
        rng = generator_of(self.random_state, in_budget=self.budget is not None)
        public = {name: value for name, value in self.get_params().items() if name not in _OTHERS}
        public = {name: value for name, value in public.items() if (name, value) not in _WITHOUT_UNITS}
        public |= {"epsilon": self.epsilon, "delta": self.delta, "budget": self.budget}
        if self.interval is not None:
            public["interval"] = self.interval
        self._fitted = {
            name: deepcopy(each) for name, each in self.get_params().items() if name not in _NOISE
        }
        moved = clipped_cells() if clipped_cells and self.interval is not None else None
        sample = Sample(X, y, moved=moved, user_ids=user_ids, row_weights=weights)
        result = estimate(self._estimator, sample, rng=rng, **settings, **public)
        self._result, self.privacy_spent_ = result, (result.certified_epsilon, result.delta)
        self.interval_, self._interval_note, self._interval_about = None, "", ""
        if (intervals := result.intervals) is not None:
            self.interval_ = result.interval
            sentences = [
                covered(result.about.target, self._family) if result.about.target else "",
                intervals.about,
            ]
            self._interval_about = " ".join(filter(None, sentences))
            names = [*self._names(), "intercept"][: len(result.estimate)]
            limits = result.interval
            if back is not None:
                intervals, limits = intervals.along(back, result.estimate[:, None]), result.along(back)[1]
            self._interval_note = why_none(intervals.codes, names)
            warn_of_hidden(intervals.hidden(names))
            warn_of_none(limits, intervals, names)
        return result

    def _names(self) -> list[str]:
        feature_names = getattr(self, "feature_names_in_", None)
        if feature_names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        coded = level_columns(self.levels_)
        return [column for name in feature_names for column in coded.get(name, (str(name),))]

    @property
    def risk_(self) -> AttackRisk:
        """Bounds on what an attacker can learn about one row or user from the releases."""
        check_is_fitted(self)
        return self._result.risk

    def _rows(self) -> list[tuple[str, float]]:
        raise NotImplementedError

    @property
    def _coefficients(self) -> CoefficientTable:
        check_is_fitted(self)
        names, values = zip(*self._rows(), strict=True)
        return CoefficientTable(
            terms=names,
            estimate=np.array(values),
            interval=self.interval_,
            level=self._fitted["interval"],
            family=self._family,
            intercept="intercept",
        )

    def table(self) -> Any:
        """Return the coefficients as a data frame with a row per term; see :meth:`dpalgos.Result.table`."""
        return self._coefficients.to_frame()

    def conf_int(self) -> Any:
        """Return the confidence limits as a data frame (d, 2) by term; NaN if there is no interval."""
        return self._coefficients.conf_int()

    def summary(self) -> Summary:
        """Return a table of the released estimates, their cost and the public inputs."""
        coefficients = self._coefficients
        settings = {name: value for name, value in self._fitted.items() if value is not None}
        units = [name for name in settings if name in _UNITS]
        public = [
            "the shape of X",
            *(["labels"] if hasattr(self, "classes_") else []),
            f"units ({', '.join(units)})" if units else "units",
            *(f"{name} = {value}" for name, value in settings.items() if name not in _OTHERS),
        ]
        budget = (self._fitted[name] for name in ("epsilon", "delta", "interval"))
        risk = self.risk_.sentence
        remarks = [
            guarantee_of(self.risk_.unit, *budget, seeded=self._result.about.seeded),
            f"{risk[0].upper()}{risk[1:]}.",
            f"Public: {', '.join(public)}.",
            *([self._interval_about] if self._interval_about else []),
            *([f"?: {self._interval_note}"] if self._interval_note else []),
        ]
        title = f"{type(self).__name__} ({self._estimator})"
        return Summary(title=title, coefficients=coefficients, remarks=remarks)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def _html_repr(self) -> str:
        if "privacy_spent_" in vars(self):
            return self.summary()._repr_html_()
        return str(super()._html_repr())


@dataclass(kw_only=True, eq=False, repr=False)
class UnitModel(PrivateModel):
    """A private model whose columns have public units, and whose categorical columns have public levels.

    ``levels``, e.g. ``{"region": ["north", "south"]}``, lists all levels of a column of a data frame. The
    first level is the reference. Each other level becomes an indicator column.
    """

    bounds: object = None
    levels: Mapping[str, Sequence[Any]] | None = None

    def _units_of(self, X: FloatArray, centered: bool = True) -> Units:
        bounds, columns = self.bounds, self._names() if hasattr(self, "feature_names_in_") else None
        if isinstance(bounds, Mapping):
            coded = [column for columns in level_columns(self.levels_).values() for column in columns]
            bounds = {**dict.fromkeys(coded, (0, 1)), **bounds}
        return units_of_bounds(X.shape[1], bounds, centered=centered, columns=columns)
