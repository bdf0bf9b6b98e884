"""Private regressions by formula, with a table as regression tools have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from dpalgos.api import Result, estimate
from dpalgos.coefficients import CoefficientTable, frame_of
from dpalgos.errors import InputError
from dpalgos.formula.design import (
    INTERCEPT,
    CategoryColumn,
    FormulaDesign,
    NumberColumn,
    design_of,
)
from dpalgos.goodness import binned, in_units
from dpalgos.typing import FloatArray

_FAMILIES = {"gaussian": "preconditioned_regression", "logistic": "preconditioned_glm"}
_FAMILIES["poisson"] = "preconditioned_glm"


@dataclass(frozen=True, eq=False, kw_only=True)
class FormulaResult:
    """A private regression by formula, in the units of its columns.

    Attributes
    ----------
    design : FormulaDesign
        Columns with their public bounds and units.
    result : dpalgos.Result
        The answer in public units, with its events.
    coefficients : CoefficientTable
    bounds : mapping
        The public bounds of the columns of numbers.
    response_units : (float, float)
        The center and the scale of the response.
    """

    design: FormulaDesign
    result: Result
    coefficients: CoefficientTable
    bounds: Mapping[str, Sequence[float]]
    response_units: tuple[float, float] = (0.0, 1.0)

    @property
    def params(self) -> dict[str, float]:
        """The coefficients by term."""
        return dict(zip(self.coefficients.terms, map(float, self.coefficients.estimate), strict=True))

    def table(self) -> Any:
        """Return the coefficients as a data frame, a row per term; see :meth:`dpalgos.Result.table`.

        Of logistic and Poisson regressions also odds or rate ratios with their intervals.
        """
        return self.coefficients.to_frame()

    def conf_int(self) -> Any:
        """Return the ends of intervals as a data frame (d, 2) by term, NaN where there is none."""
        frame = self.coefficients.to_frame().set_index("term")[["ci_low", "ci_high"]]
        return frame.set_axis([0, 1], axis=1)

    def glance(self) -> Any:
        """Return the facts of the fit as a data frame of one row; see :meth:`dpalgos.Result.glance`."""
        ones = len(self.design.columns) if self.design.has_intercept else None
        fit = in_units(self.result.goodness(ones), self.response_units[1])
        return frame_of([{"formula": self.design.formula, **self.result.facts, **fit}])

    def binned_fit(self) -> Any:
        """Return the fit by tenths of the predictions; see :meth:`dpalgos.Result.binned_fit`."""
        center, scale = self.response_units
        return frame_of(binned(self.result.diagnostics, scale, center))

    def predict(self, frame: Any) -> FloatArray:
        """Return predictions for rows of a frame, (n,): responses, or chances of the second level."""
        found = self.design.matrix(_rows_of(frame, self.design, self.bounds, fits=False))
        coef = self.coefficients.estimate
        linear = found @ coef[: found.shape[1]] + (coef[-1] if self.design.has_intercept else 0.0)
        if self.coefficients.family == "logistic":
            return np.asarray(1 / (1 + np.exp(-linear)))
        return np.asarray(
            np.exp(np.minimum(linear, 700.0)) if self.coefficients.family == "poisson" else linear
        )

    def _repr_html_(self) -> str:
        table = self.table().to_html(index=False, float_format="%.4g")
        return f"<p>{escape(self.design.formula)}</p>{table}<p>{escape(self._footnote)}</p>"

    def __repr__(self) -> str:
        table = self.table().to_string(index=False, float_format="%.4g")
        return f"{self.design.formula}\n{table}\n{self._footnote}"

    @property
    def _footnote(self) -> str:
        references = [f"{name} against {level}" for name, level in self.design.references.items()]
        return "; ".join([self.result.promise, *references])


def ols(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private linear regression by formula.

    Parameters
    ----------
    formula : str
        ``"cost ~ age + C(region) + age:smoker + log1p(visits)"``: ``+ : * ** - /``, ``I(…)``, ``log``,
        ``log1p``, ``sqrt``, ``bs(x, knots=(…))``, ``C(g, Treatment("reference"))``.
    frame : pandas.DataFrame or mapping of arrays
        Rows; values beyond the bounds are moved to them.
    epsilon, delta : float
    bounds : mapping of str to (float, float)
        Public bounds of every column of numbers that the formula names, the response included.
    levels : mapping of str to sequence, optional
        Public levels of every category; the first is the reference.
    center, scale : mapping of str to float, optional
        Public units of columns: typical values, and how far values lie from them.
    interval : float or None, default .95
    random_state : int or numpy.random.Generator
    **settings
        Keywords of the estimator. ``diagnostics=0.05``, say, takes a share of the budget to release
        calibration and residuals by tenths of the predictions, too.

    Returns
    -------
    FormulaResult

    Raises
    ------
    InputError
        For what is not declared or would be learned from rows; no value of the rows is ever printed.
    """
    return _fitted("gaussian", formula, frame, **options)


def logit(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private logistic regression by formula; parameters as of :func:`ols`.

    The response is a column of 0 and 1, or of two levels, of which the second is the event.
    """
    return _fitted("logistic", formula, frame, **options)


def poisson(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private Poisson regression of counts by formula; parameters as of :func:`ols`."""
    return _fitted("poisson", formula, frame, **options)


def _fitted(
    family: str,
    formula: str,
    frame: Any,
    *,
    epsilon: float,
    delta: float,
    bounds: Mapping[str, Sequence[float]],
    levels: Mapping[str, Sequence[Any]] | None = None,
    center: Mapping[str, float] | None = None,
    scale: Mapping[str, float] | None = None,
    interval: float | None = 0.95,
    random_state: int | np.random.Generator | None = None,
    **settings: Any,
) -> FormulaResult:
    design = design_of(formula, declarations(bounds, levels or {}, center or {}, scale or {}))
    if design.response is None:
        raise InputError(f"formula must have a response on its left, got {formula!r}")
    rows = _rows_of(frame, design, bounds, fits=True)
    X, y = design.matrix(rows), design.response.values(rows)
    centers, scales = _units(design, family)
    Z = (X - centers) / scales
    Z = np.column_stack([Z, np.ones(len(Z))]) if design.has_intercept else Z
    response = (design.response.center, design.response.scale) if family == "gaussian" else (0.0, 1.0)
    if not design.has_intercept:
        response = 0.0, response[1]
    keywords = dict(settings) if family == "gaussian" else {"family": family, **settings}
    if design.has_intercept:
        keywords = {"intercept": True, **keywords}
    if interval is not None:
        keywords["interval"] = interval
    rng = (
        random_state if isinstance(random_state, np.random.Generator) else np.random.default_rng(random_state)
    )
    name = _FAMILIES[family]
    result = estimate(
        name, Z, (y - response[0]) / response[1], epsilon=epsilon, delta=delta, rng=rng, **keywords
    )
    coef, ends = _in_raw_units(result, design, centers, scales, response)
    errors = None
    if result.std_error is not None:
        errors = response[1] * result.std_error[: len(scales)] / scales
        if design.has_intercept:
            errors = np.append(errors, response[1] * result.std_error[-1] + (errors * abs(centers)).sum())
    terms = (*design.names, INTERCEPT) if design.has_intercept else design.names
    return FormulaResult(
        design=design,
        result=result,
        coefficients=CoefficientTable(
            terms=terms,
            estimate=coef,
            interval=ends,
            level=interval,
            family=family,
            intercept=INTERCEPT,
            known_std_error=errors,
        ),
        bounds=dict(bounds),
        response_units=response,
    )


def declarations(
    bounds: Mapping[str, Sequence[float]],
    levels: Mapping[str, Sequence[Any]],
    center: Mapping[str, float],
    scale: Mapping[str, float],
) -> dict[str, NumberColumn | CategoryColumn]:
    """Return public declarations by column; refuse what is no pair of bounds, and columns declared twice."""
    found: dict[str, NumberColumn | CategoryColumn] = {}
    for name, pair in bounds.items():
        numbers = list(map(float, pair)) if isinstance(pair, tuple | list | np.ndarray) else []
        if len(numbers) != 2 or not numbers[0] < numbers[1]:
            raise InputError(
                f"bounds must be like {{{name!r}: (lower, upper)}} with lower < upper, got {pair!r}"
            )
        low, high = numbers
        found[name] = NumberColumn(low, high, center.get(name), scale.get(name))
    for name, listed in levels.items():
        if name in found:
            raise InputError(f"column {name!r} has bounds and levels; keep those that suit it")
        if isinstance(listed, str) or len(set(listed)) < 2:
            raise InputError(f"levels must be like {{{name!r}: ['a', 'b']}}, two or more, got {listed!r}")
        found[name] = CategoryColumn(tuple(listed))
    if unknown := [name for name in {**center, **scale} if name not in bounds]:
        raise InputError(f"center and scale go with bounds, got {unknown[0]!r} without; add its bounds")
    return found


def _rows_of(
    frame: Any, design: FormulaDesign, bounds: Mapping[str, Sequence[float]], *, fits: bool
) -> dict[str, Any]:
    """Return the columns that a design uses, numbers moved into their bounds; refuse missing ones.

    The response is needed where the design ``fits``.
    """
    response = [design.response] if fits and design.response else []
    names = dict.fromkeys(name for column in (*design.columns, *response) for name in column.uses)
    found: dict[str, Any] = {}
    for name in names:
        try:
            values = np.asarray(frame[name])
        except (KeyError, IndexError, TypeError, ValueError):
            raise InputError(
                f"frame must hold column {name!r}; correct the formula, or the column's name"
            ) from None
        if name in design.levels:
            if not np.isin(values, list(design.levels[name])).all():
                raise InputError(
                    f"column {name!r} must hold its declared levels only; declare the others, too"
                )
            found[name] = values
            continue
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"column {name!r} must hold numbers; declare levels for text") from None
        if not np.isfinite(numbers).all():
            raise InputError(
                f"column {name!r} must hold finite numbers in every row; drop or impute the others"
            )
        low, high = bounds[name]
        found[name] = np.clip(numbers, low, high)
    return found


def _units(design: FormulaDesign, family: str) -> tuple[FloatArray, FloatArray]:
    """Return centers and scales (d,); without an intercept 0 stays 0."""
    scales = np.array([column.scale for column in design.columns])
    if not design.has_intercept:
        return np.zeros(len(scales)), np.array([max(abs(c.lower), abs(c.upper)) for c in design.columns])
    return np.array([column.center for column in design.columns]), scales


def _in_raw_units(
    result: Result,
    design: FormulaDesign,
    centers: FloatArray,
    scales: FloatArray,
    response: tuple[float, float],
) -> tuple[FloatArray, FloatArray | None]:
    """Return coefficients (k,) and interval ends (2, k) in the columns' units, the intercept last.

    The intercept's standard error is at most the sum of those of its parts, unless the answer comes with its
    covariance.
    """
    d, (middle, unit) = len(scales), response
    slopes = unit * result.estimate[:d] / scales
    moved = slopes @ centers
    coef = np.append(slopes, unit * result.estimate[d] + middle - moved) if design.has_intercept else slopes
    if result.interval is None:
        return coef, None
    ends = unit * result.interval[:, :d] / scales
    if design.has_intercept:
        products = np.where(centers, -ends * centers, 0.0)
        last = unit * result.interval[:, d] + middle + np.sort(products, axis=0).sum(axis=1)
        ends = np.column_stack([ends, last])
    return coef, np.asarray(ends)
