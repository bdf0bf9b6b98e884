"""Private regressions by formula, with a table as regression tools have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.api import Result, estimate
from dpalgos.coefficients import CENTERED, SHRUNK, CoefficientTable, Summary, frame_of, series_of
from dpalgos.errors import InputError
from dpalgos.formula.basis import Basis, basis_of
from dpalgos.formula.design import (
    INTERCEPT,
    CategoryColumn,
    FormulaDesign,
    NumberColumn,
    design_of,
)
from dpalgos.formula.terms import columns_named
from dpalgos.goodness import binned, farthest, in_units
from dpalgos.intervals.half_widths import WHY, warn_of_none
from dpalgos.typing import FloatArray

_FAMILIES = {"gaussian": "preconditioned_regression", "logistic": "preconditioned_glm"}
_FAMILIES["poisson"] = "preconditioned_glm"


@dataclass(frozen=True, eq=False, kw_only=True)
class FormulaResult:
    """A private regression by formula, in the units of its columns, with the names of statsmodels.

    Attributes
    ----------
    design : FormulaDesign
        Columns with their public bounds.
    basis : Basis
        The columns that were fitted: products about public centers.
    result : dpalgos.Result
        The answer in them, with its events.
    coefficients : CoefficientTable
        Of the formula's terms.
    bounds : mapping
        The public bounds of the columns of numbers.
    response_units : (float, float)
        The center and the scale of the response.
    """

    design: FormulaDesign
    basis: Basis
    result: Result
    coefficients: CoefficientTable
    bounds: Mapping[str, Sequence[float]]
    response_units: tuple[float, float] = (0.0, 1.0)

    @property
    def params(self) -> Any:
        """The coefficients by term, a series: the centers of the intervals where there are any."""
        return self._series(self.coefficients.shown, "params")

    @property
    def shrunk(self) -> Any:
        """The answer after shrinkage by term, a series, by which :meth:`predict` predicts."""
        return self._series(self.coefficients.estimate, "shrunk")

    @property
    def bse(self) -> Any:
        """The standard errors by term, a series."""
        return self._series(self.coefficients.std_error, "bse")

    @property
    def tvalues(self) -> Any:
        """The estimates over their standard errors by term, a series."""
        return self._series(self.coefficients.statistic, "tvalues")

    @property
    def pvalues(self) -> Any:
        """The p-values by term, a series."""
        return self._series(self.coefficients.p_value, "pvalues")

    @property
    def rsquared(self) -> float:
        """R², where it was released."""
        found = self._goodness
        if "r_squared" not in found:
            raise AttributeError(
                "rsquared was not released: only linear regressions with enough rows have it"
            )
        return float(found["r_squared"])

    def _series(self, values: FloatArray, name: str) -> Any:
        return series_of(self.coefficients.terms, values, name)

    @property
    def _goodness(self) -> dict[str, Any]:
        response = self.design.response
        if not self.basis.constant or response is None:
            return in_units(self.result.goodness(), self.response_units[1])
        reach = [*farthest(self.basis.columns), 1.0, *farthest([response])]
        return in_units(self.result.goodness(len(self.basis.columns), reach), self.response_units[1])

    def table(self) -> Any:
        """Return the coefficients as a data frame, a row per term; see :meth:`dpalgos.Result.table`.

        Of logistic and Poisson regressions also odds or rate ratios with their intervals.
        """
        return self.coefficients.to_frame()

    def conf_int(self) -> Any:
        """Return the ends of intervals as a data frame (d, 2) by term, NaN where there is none."""
        return self.coefficients.conf_int()

    def glance(self) -> Any:
        """Return the facts of the fit as a data frame of one row; see :meth:`dpalgos.Result.glance`."""
        return frame_of([{"formula": self.design.formula, **self.result.facts, **self._goodness}])

    def binned_fit(self) -> Any:
        """Return the fit by tenths of the predictions; see :meth:`dpalgos.Result.binned_fit`."""
        center, scale = self.response_units
        return frame_of(binned(self.result.diagnostics, scale, center))

    def predict(self, frame: Any) -> FloatArray:
        """Return predictions for rows of a frame, (n,): responses, or chances of the second level."""
        rows = _rows_of(frame, self.design, self.bounds, fits=False)
        center, scale = self.response_units
        linear = scale * self.basis.matrix(rows) @ self.result.estimate + center
        if self.coefficients.family == "logistic":
            return np.asarray(1 / (1 + np.exp(-linear)))
        return np.asarray(
            np.exp(np.minimum(linear, 700.0)) if self.coefficients.family == "poisson" else linear
        )

    def summary(self) -> Summary:
        """Return the table with its facts, what was promised, and what the intervals cover."""
        return Summary(title=self.design.formula, coefficients=self.coefficients, remarks=self._facts)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __repr__(self) -> str:
        return self.summary().as_text()

    @property
    def _facts(self) -> list[str]:
        references = "; ".join(f"{name} against {level}" for name, level in self.design.references.items())
        found, fit = [f"n = {self.result.about.n:,}"], self._goodness
        if "r_squared" in fit:
            found.append(
                f"R² = {fit['r_squared']:.3f} [{fit['r_squared_low']:.3f}, {fit['r_squared_high']:.3f}]"
            )
        has_interval = not np.isnan(self.coefficients.ends).all()
        shown = f"{CENTERED} (.shrunk, .predict())." if has_interval else f"{SHRUNK}."
        return [
            "; ".join(found),
            self.result.promise,
            shown,
            *([f"There is {fit['fit_note']}."] if "fit_note" in fit else []),
            *([f"Reference levels: {references}."] if references else []),
        ]


def ols(formula: str, frame: Any, **options: Any) -> FormulaResult:
    """Fit a private linear regression by formula.

    Parameters
    ----------
    formula : str
        ``"cost ~ age + C(region) + age:smoker + log1p(visits)"``: ``+ : * ** - /``, ``I(…)``, ``log``,
        ``log1p``, ``sqrt``, ``bs(x, knots=(…))``, ``C(g, Treatment("reference"))``; in logistic and Poisson
        regressions ``offset(log(days))``, or ``exposure(days)`` for the same.
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
    interval: float | None = 0.95,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> FormulaResult:
    declared = _declared(family, formula, **{key: options.pop(key) for key in _DECLARED if key in options})
    design = design_of(formula, declared)
    if design.response is None:
        raise InputError(f"formula must have a response on its left, got {formula!r}")
    if design.offset is not None and family == "gaussian":
        name = design.offset.name
        raise InputError(
            f"formula: offset({name}) is of logistic and Poisson regressions; in a linear one take it "
            f"off the response, I({design.response.name} - {name})"
        )
    basis = basis_of(design, declared)
    every = {
        name: (each.lower, each.upper) for name, each in declared.items() if isinstance(each, NumberColumn)
    }
    rows = _rows_of(frame, design, every, fits=True)
    y = design.response.values(rows)
    response = (design.response.center, design.response.scale) if family == "gaussian" else (0.0, 1.0)
    if not basis.constant:
        response = 0.0, response[1]
    keywords = options if family == "gaussian" else {"family": family, **options}
    if basis.constant:
        keywords = {"intercept": True, **keywords}
    if basis.offset_bounds is not None:
        keywords["offset_bounds"] = basis.offset_bounds
    if interval is not None:
        keywords["interval"] = interval
    rng = (
        random_state if isinstance(random_state, np.random.Generator) else np.random.default_rng(random_state)
    )
    result = estimate(
        _FAMILIES[family],
        basis.matrix(rows),
        (y - response[0]) / response[1],
        rng=rng,
        **keywords,
    )
    table = result.coefficients(
        design.terms,
        combinations=response[1] * basis.back,
        shift=basis.shift(response[0]),
        intercept=INTERCEPT,
    )
    warn_of_none(
        table.interval,
        result.diagnostics.get(WHY, np.zeros((0, 1))),
        [column.name for column in basis.columns] + ["Intercept"] * basis.constant,
    )
    return FormulaResult(
        design=design,
        basis=basis,
        result=result,
        coefficients=table,
        bounds=every,
        response_units=response,
    )


_DECLARED = ("bounds", "levels", "center", "scale")


def _declared(
    family: str,
    formula: str,
    *,
    bounds: Mapping[str, Sequence[float]],
    levels: Mapping[str, Sequence[Any]] | None = None,
    center: Mapping[str, float] | None = None,
    scale: Mapping[str, float] | None = None,
) -> dict[str, NumberColumn | CategoryColumn]:
    every = _with_events(family, formula, bounds, levels or {})
    return declared_columns(every, levels or {}, center or {}, scale or {})


def _with_events(
    family: str, formula: str, bounds: Mapping[str, Sequence[float]], levels: Mapping[str, Sequence[Any]]
) -> Mapping[str, Sequence[float]]:
    """Return the bounds with those of an event, which is 0 or 1 if its column is not declared."""
    named = columns_named(formula, [*bounds, *levels])[0] if family == "logistic" else ()
    return {**{name: (0.0, 1.0) for name in named if name not in levels}, **bounds}


def declared_columns(
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
    offset = [design.offset] if design.offset else []
    names = dict.fromkeys(name for column in (*design.columns, *offset, *response) for name in column.uses)
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
