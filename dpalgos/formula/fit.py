"""Private regressions by formula, with a coefficient table as in other regression libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.answers.model import ReleasedModel
from dpalgos.api import estimate
from dpalgos.cautions import warn_of_hidden
from dpalgos.coefficients import CoefficientTable, Summary, frame_of
from dpalgos.errors import InputError
from dpalgos.formula.allowed import SURVIVAL, call_of, read_formula
from dpalgos.formula.code import INTERCEPT
from dpalgos.formula.columns import (
    DECLARATIONS,
    NumberColumn,
    check_left_out,
    clipped,
    column_of,
    declared_columns,
    declared_rows,
    public_rows,
    unclipped_rows,
)
from dpalgos.formula.design import FormulaDesign, design_of, level_grid
from dpalgos.formula.nested import submodel_by_formula, submodel_by_terms
from dpalgos.formula.person_rows import marked_rows
from dpalgos.goodness import binned, farthest, in_units
from dpalgos.interval import Interval, warn_of_none
from dpalgos.models.families import get_family
from dpalgos.release.checks import check_positive, check_probability, unmasked
from dpalgos.release.noise_source import generator_of
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.rows.units import user_codes
from dpalgos.typing import BoolArray, FloatArray, IntArray

_FAMILIES = {
    "gaussian": "preconditioned_regression",
    "logistic": "preconditioned_glm",
    "poisson": "preconditioned_glm",
}
ROW_OF_PERSON = "row (a row is taken as a person)"  # the unit of privacy of times without a column of persons
# Keywords that follow from the formula, the frame and random_state.
OF_DESIGN = (
    *("name", "X", "y", "rng", "replicates", "row_mask", "user_ids"),
    *("family", "intercept", "offset_bounds", "n_classes"),
)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FormulaResult(Result):
    """A private regression by formula: a result whose coefficients are those of the formula's terms.

    ``estimate`` and ``interval`` are those of the fitted columns, in their units.

    Attributes
    ----------
    design : dpalgos.formula.design.FormulaDesign
        The formula with its declarations.
    response_units : (float, float)
        The center and the scale of the response.
    """

    design: FormulaDesign
    response_units: tuple[float, float] = (0.0, 1.0)

    def coefficients(self, names: Sequence[str] | None = None, **others: Any) -> CoefficientTable:
        """Return the coefficients of the terms with their intervals."""
        center, scale = self.response_units
        mapped = {"combinations": scale * self.design.back, "shift": self.design.shift(center), **others}
        return super().coefficients(
            self.design.terms if names is None else names, **{"intercept": INTERCEPT, **mapped}
        )

    def conf_int(self) -> Any:
        """Return the confidence limits as a data frame (d, 2) by term; NaN if there is no interval."""
        return self.coefficients().conf_int()

    @property
    def model(self) -> ReleasedModel:
        """The releases, from which further estimates follow."""
        design, (center, scale) = self.design, self.response_units

        return self.released_model(
            design.terms,
            matrix=scale * design.back,
            shift=np.zeros(len(design.terms)) + design.shift(center),
            by_term=design.by_term,
            columns=tuple(design.declared),
            declaration=design.declaration,
            response=design.response.name if design.response else "",
            offset=design.offset_code,
            intercept=INTERCEPT if design.has_intercept else "",
            rows_of=partial(_rows_of, design),
        )

    @property
    def coordinate_names(self) -> list[str]:
        """The names of the fitted columns."""
        return [*self.design.names, *([INTERCEPT] if self.design.constant else [])]

    @property
    def intervals_of_terms(self) -> Interval | None:
        """The intervals of the terms with the reasons for missing ones; a term may combine columns."""
        back = self.response_units[1] * self.design.back
        return None if self.intervals is None else self.intervals.along(back, self.estimate[:, None])

    @property
    def hidden(self) -> list[str] | None:
        """The names of terms that noise hides; None if no interval was computed."""
        intervals = self.intervals_of_terms
        return None if intervals is None else intervals.hidden(self.design.terms)

    def submodel(self, terms: Sequence[str] | str) -> ReleasedModel:
        """Return a model nested in this one, by a list of terms or a formula."""
        if isinstance(terms, str):
            return submodel_by_formula(self.model, terms)
        return submodel_by_terms(self.model, self.design, terms)

    def marginal_means(self, name: str, interval: float = 0.95) -> Any:
        """Return the mean response at each level of a category, as a data frame.

        If the target of a linear regression is robust, it has a robust location instead of a mean. Pass
        ``interval_target="least squares"`` for means. Other numeric columns are at their public centers.
        Levels of other categories have equal frequencies. The mean linear predictor is transformed to the
        scale of the response.
        """
        check_probability("interval", interval)
        levels, frame = level_grid(self.design, name)
        rows, offset = self.design.terms_of(frame)
        shape = len(levels), -1
        at_levels = rows.reshape(*shape, rows.shape[1]).mean(axis=1), offset.reshape(shape).mean(axis=1)
        means = self.model.means(*at_levels, interval)
        return means.set_axis(list(levels), axis=0).rename_axis(name)

    def goodness(self, intercept: int | None = None, reach: Sequence[float] | None = None) -> dict[str, Any]:
        """Return R² and the residual standard deviation in the units of the response, or a note."""
        design, unit = self.design, self.response_units[1]
        if not design.constant or design.response is None:
            return in_units(super().goodness(), unit)
        farthest_rows = np.abs(design.matrix(public_rows(design.declared, 1024))).max(axis=0)
        return in_units(
            super().goodness(len(design.names), [*farthest_rows, *farthest([design.response])]), unit
        )

    def glance(self, intercept: int | None = None, reach: Sequence[float] | None = None) -> Any:
        """Return the facts of the fit as a data frame of one row; see :meth:`dpalgos.Result.glance`."""
        return frame_of([{"formula": self.design.formula, **self.facts, **self.goodness()}])

    def binned_fit(self) -> Any:
        """Return the fit by deciles of the predictions; see :meth:`dpalgos.Result.binned_fit`."""
        center, scale = self.response_units
        return frame_of(binned(self.diagnostics, scale, center))

    def bin_fit(
        self,
        frame: Any,
        *,
        random_state: int | np.random.Generator | None = None,
        residual_bound: float | None = None,
        **options: Any,
    ) -> FormulaResult:
        """Release the fit of these coefficients to the rows of a frame, as a separate release with its own ε.

        :meth:`binned_fit` of the returned result shows it.

        Parameters
        ----------
        frame : pandas.DataFrame or mapping of arrays
        random_state : int or numpy.random.Generator
        residual_bound : float, optional
            Residuals are clipped to plus or minus this, in units of the response; by default its public
            range.
        **options
            ``epsilon``, ``delta`` and ``budget``, as in :func:`dpalgos.estimate`.
        """
        check_left_out(options, *OF_DESIGN, "coef")
        design, (center, scale) = self.design, self.response_units
        assert design.response is not None
        family = self.about.family or "gaussian"
        rows, _ = _clipped_rows(family, design, frame)
        width = design.response.upper - design.response.lower
        width = width if residual_bound is None else check_positive("residual_bound", residual_bound)
        result = estimate(
            "binned_fit",
            design.matrix(rows),
            (design.response.values(rows) - center) / scale,
            rng=generator_of(random_state, in_budget=options.get("budget") is not None),
            coef=self.estimate,
            family=family,
            residual_bound=None if family == "logistic" else width / scale,
            offset_bounds=design.offset_bounds,
            **options,
        )
        return FormulaResult(**vars(result), design=design, response_units=self.response_units)

    def predict(self, frame: Any, interval: float | None = None) -> Any:
        """Return predictions for rows of a frame, (n,): responses, or probabilities of the second level.

        Columns are clipped to their bounds, as in the fit. Predictions use the shrunken estimate. With
        ``interval``, return a data frame of mean responses, which uses the centers of the intervals:
        :meth:`dpalgos.answers.model.ReleasedModel.predict`.
        """
        if interval is not None:
            return self.model.predict(frame, interval)
        rows = declared_rows(frame, self.design.declared, self.design.reading.right)
        center, scale = self.response_units
        linear = scale * self.design.matrix(rows) @ self.estimate + center
        if self.about.family == "logistic":
            return np.asarray(1 / (1 + np.exp(-linear)))
        return np.asarray(np.exp(np.minimum(linear, 700.0)) if self.about.family == "poisson" else linear)

    def summary(self) -> Summary:
        """Return the coefficient table with facts, the guarantee, and the errors that the intervals cover."""
        summary = super().summary()
        references = "; ".join(f"{name} against {level}" for name, level in self.design.references.items())
        remarks = [*summary.remarks, *([f"Reference levels: {references}."] if references else [])]
        return Summary(title=self.design.formula, coefficients=summary.coefficients, remarks=remarks)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __repr__(self) -> str:
        return self.summary().as_text()


ResultOfFormula = TypeVar("ResultOfFormula", bound=FormulaResult)


def ols(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private linear regression by formula.

    Parameters
    ----------
    formula : str
        ``"cost ~ age + C(region) + age:smoker + log1p(visits)"``. Allowed are ``+ : * ** - /``, ``I(…)``,
        ``log``, ``log1p``, ``sqrt``, ``bs(x, df=4)`` and ``C(g, Treatment("reference"))``. Logistic and
        Poisson regressions also allow ``offset(log(days))``, or the equivalent ``exposure(days)``. Other
        names need back-quotes or ``Q("…")``. A quoted name means the same column: ``- age`` also removes
        ``Q("age")``, which statsmodels keeps.
    frame : pandas.DataFrame or mapping of arrays
        Rows; values outside the bounds are clipped.
    epsilon, delta : float
    bounds : mapping of str to (float, float)
        Public bounds of every numeric column of the formula, including the response.
    levels : mapping of str to sequence, optional
        Public levels of every category; the first is the reference.
    center, scale : mapping of str to float, optional
        Public units of columns: typical values, and typical distances from them.
    impute : mapping of str to number or level, optional
        Public constants that replace missing cells (None, NaN or ``pandas.NA``) of a column: a number within
        the bounds, or a level.
    interval : float or None, default 0.95
    random_state : int or numpy.random.Generator
    user : str, optional
        Column of the person of every row. People are then protected with all their rows, and each counts
        once. With ``person_weight="rows"`` and ``max_rows``, each row counts once.
    weights : str, optional
        Column of private weights of rows; needs ``max_weight``, their public maximum.
    **settings
        Keywords of the estimator.

    Returns
    -------
    FormulaResult

    Raises
    ------
    InputError
        If something is undeclared, or would be learned from rows; no value of the rows is ever printed.
    """
    return _fit("gaussian", formula, frame, **options)


def logit(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private logistic regression by formula; parameters and errors are those of :func:`ols`.

    The response has values 0 and 1, or two levels. The second level is the event.

    Returns
    -------
    FormulaResult
        Log-odds per unit of each term; ``table()`` also has odds ratios.
    """
    return _fit("logistic", formula, frame, **options)


def poisson(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private Poisson regression of counts by formula; parameters and errors are those of :func:`ols`.

    Returns
    -------
    FormulaResult
        Log rates per unit of each term; ``table()`` also has rate ratios.
    """
    return _fit("poisson", formula, frame, **options)


def _fit(kind: str, formula: str, frame: Any, **options: Any) -> FormulaResult:
    check_left_out(options, *OF_DESIGN)
    declarations = {key: options.pop(key) for key in DECLARATIONS if key in options}
    columns = declared_columns(kind, formula, **declarations)
    reading = read_formula(formula, columns)
    if reading.response and call_of(reading.response)[0] == SURVIVAL:
        name = reading.names.spell(reading.response)
        raise InputError(f"formula: {name} is for dpalgos.formula.phreg(…), got it in another regression")
    return fit_design(FormulaResult, kind, design_of(formula, columns), frame, **options)


def fit_design(
    result_type: type[ResultOfFormula],
    family: str,
    design: FormulaDesign,
    frame: Any,
    *,
    interval: float | None = 0.95,
    random_state: int | np.random.Generator | None = None,
    user: str | None = None,
    weights: str | None = None,
    **options: Any,
) -> ResultOfFormula:
    """Fit a formula's design to the rows of a frame.

    If the response is a time to an event, each row is taken as a person unless ``user`` names their column.
    """
    response = design.response
    if response is None:
        raise InputError(f"formula must have a response on its left, got {design.formula!r}")
    if design.offset is not None and family == "gaussian":
        name = design.offset.name.removeprefix("offset(").removesuffix(")")
        raise InputError(
            f"formula: offset({name}) is for logistic and Poisson regressions; in a linear one, subtract it "
            f"from the response, I({response.name} - {name})"
        )
    design.check_response(get_family(family))
    rows, is_clipped = _clipped_rows(family, design, frame)
    user_ids = None if user is None else column_of(frame, user, "user")
    row_weights = None if weights is None else column_of(frame, weights, "weights")
    units = (response.center, response.scale) if family == "gaussian" else (0.0, 1.0)
    units = units if design.constant else (0.0, units[1])
    keywords = {
        **({} if family == "gaussian" else {"family": family}),
        **({"intercept": True} if design.constant else {}),
        **({"offset_bounds": design.offset_bounds} if design.offset else {}),
        **({"count_bound": response.upper} if family == "poisson" and not design.survival else {}),
        **({} if interval is None else {"interval": interval}),
        **options,
    }
    rng = generator_of(random_state, in_budget=options.get("budget") is not None)
    of_rows: dict[str, Any] = {"user_ids": user_ids, "row_weights": row_weights}
    if design.survival:
        relation = Relation.CENTRAL if user is None else None
        of_rows = _of_persons(design, rows, None if interval is None else is_clipped, **of_rows)
        sample, rows = Sample(**of_rows, relation=relation), {}  # the sample holds what it needs
    else:
        y, X, relation = (response.values(rows) - units[0]) / units[1], design.matrix(rows), None
        sample = Sample(
            X, y, moved=None if interval is None else marked_rows(is_clipped, X.shape[1]), **of_rows
        )
    plain = estimate(_FAMILIES[family], sample, rng=rng, **keywords)
    if relation:
        plain = replace(plain, about=replace(plain.about, unit=ROW_OF_PERSON))
    result = result_type(**vars(plain), design=design, response_units=units)
    warn_of_hidden(result.hidden)
    warn_of_none(result.coefficients().interval, result.intervals_of_terms, design.terms)
    return result


def _of_persons(
    design: FormulaDesign,
    rows: Mapping[str, Any],
    is_clipped: BoolArray | None,
    *,
    user_ids: Any,
    row_weights: Any,
) -> dict[str, Any]:
    """Return the sample of person-periods as keywords; without ids, each row of data is taken as a person."""
    from dpalgos.formula.person_rows import person_sample  # loaded if a response is a time

    codes: IntArray = np.arange(len(next(iter(rows.values()))))
    if row_weights is not None:
        row_weights = np.asarray(unmasked("weights", row_weights), dtype=float)
    if user_ids is not None:
        codes = user_codes(user_ids, len(codes))
    return person_sample(design, rows, codes, is_clipped=is_clipped, row_weights=row_weights)


def _rows_of(design: FormulaDesign, frame: Any) -> tuple[FloatArray, FloatArray]:
    """Return the rows of the terms (n, k) and the offset (n,) of a frame."""
    return design.terms_of(declared_rows(frame, design.declared, design.reading.right))


def _clipped_rows(family: str, design: FormulaDesign, frame: Any) -> tuple[Mapping[str, Any], BoolArray]:
    """Return the declared columns of a frame, and whether a number was clipped to a bound, by row (n,)."""
    unclipped = unclipped_rows(frame, design.source)
    rows = clipped(unclipped, design.source)
    # A time beyond the last cut point is not clipped: follow-up ends there.
    times = design.survival.names if design.survival else ()
    numbers = [
        name for name, each in design.source.items() if isinstance(each, NumberColumn) and name not in times
    ]
    is_clipped = {name: unclipped[name] != rows[name] for name in numbers}
    if family == "logistic" and (
        moved := [name for name in design.reading.left if np.any(is_clipped.get(name))]
    ):
        raise InputError(
            f"column {moved[0]!r} must lie within its bounds, as it is an event, got other values; recode it "
            "to 0 and 1, or declare its two levels, the event last"
        )
    none = np.zeros(len(next(iter(rows.values()))), dtype=bool)
    return rows, np.asarray(np.any([none, *is_clipped.values()], axis=0))
