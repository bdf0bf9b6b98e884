"""A released regression, and the further estimates that follow from it at no cost in ε.

These are nested models (:mod:`dpalgos.answers.nested`), tests of linear hypotheses, and intervals of
predictions. They use released numbers only: there are no residuals and no residual diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpalgos.answers.contrasts import WaldResults, constraints_of, joint_test
from dpalgos.answers.names import check_names, find_name
from dpalgos.answers.nested import nested
from dpalgos.coefficients import (
    RATIOS,
    CoefficientTable,
    ShowsCoefficients,
    Summary,
    coefficient_names,
    frame_of,
)
from dpalgos.errors import InputError, unknown_name, warn
from dpalgos.interval import Interval, why_none
from dpalgos.intervals.regression import OmittedEffect, ReleasedRegression
from dpalgos.release.checks import check_probability
from dpalgos.spelling import check_labels
from dpalgos.typing import FloatArray

NESTED = (
    "A nested model, by constrained least squares in the released metric{}: it follows from a release and "
    "uses no further ε."
)
RowsOf = Callable[[Any], tuple[FloatArray, FloatArray]]
_FIRST_ORDER = ", with a second-order correction for normal covariates"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedModel(ShowsCoefficients):
    """The coefficients of a release, or of a model nested in it, and further estimates from them.

    Attributes
    ----------
    terms : tuple of str
        The names of the k coefficients.
    matrix, shift : (k, m) and (k,) arrays
        The coefficients are ``matrix`` times the released ones, plus ``shift``.
    released : ReleasedRegression
    by_term : mapping of str to tuple of str
        Terms of a formula → their coefficients, such as the levels of a category.
    columns : tuple of str
        The names that a formula may use.
    declaration : mapping, optional
        The formula of the release and its declared columns, as plain data; a nested formula is coded by it.
    response, intercept, offset : str
        Their names, or "".
    promise : str
        The guarantee of the release.
    omitted : OmittedEffect, optional
        For a nested model: the effect of the omitted terms.
    ratios : str
        The family whose ratios tables show, if it is not the fitted one: ``"hazard"``.
    rows_of : callable
        Returns the rows (n, k) of the terms and the offset (n,), from rows of data.
    """

    terms: tuple[str, ...]
    matrix: FloatArray
    shift: FloatArray
    released: ReleasedRegression
    by_term: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    declaration: Mapping[str, Any] | None = None
    response: str = ""
    intercept: str = ""
    offset: str = ""
    promise: str = ""
    omitted: OmittedEffect | None = None
    ratios: str = ""
    rows_of: RowsOf | None = None

    @property
    def level(self) -> float:
        """The confidence level of its intervals."""
        return self.released.level

    @property
    def note(self) -> str:
        """The reasons that coefficients have no interval, in words."""
        return why_none(self._along(np.eye(len(self.terms))).codes, self.terms)

    @property
    def nested_note(self) -> str:
        """A description of a nested model, and the reasons that coefficients have no interval."""
        note = f"{self.note[:1].upper()}{self.note[1:]}." if self.note else ""
        kind = "" if self.released.family.is_linear else _FIRST_ORDER
        return " ".join(filter(None, [NESTED.format(kind), note]))

    def coefficients(self, names: Sequence[str] | None = None) -> CoefficientTable:
        """Return the coefficients with their intervals; NaN if there is no valid one."""
        limits = _limits(self._along(np.eye(len(self.terms))))
        family = self.ratios or self.released.family.name
        return CoefficientTable(
            terms=coefficient_names(self.terms if names is None else names, len(self.terms)),
            estimate=limits.mean(axis=0),
            interval=limits,
            level=self.level,
            family=family if family in RATIOS else "",
            intercept=self.intercept,
        )

    def after_offset(self) -> ReleasedModel:
        """Return the model without the coefficient of an offset, which is 1, if it is the first one."""
        if not self.released.has_offset or len(self.terms) < self.matrix.shape[1]:
            return self
        offset, *terms = self.terms
        return replace(
            self,
            terms=tuple(terms),
            matrix=self.matrix[1:],
            shift=self.shift[1:],
            by_term={name: members for name, members in self.by_term.items() if offset not in members},
            offset=self.offset or offset,
            rows_of=partial(_rows_after_offset, self.terms),
        )

    def submodel(self, terms: Sequence[str], *, intercept: bool = True) -> ReleasedModel:
        """Return a model nested in this one.

        Parameters
        ----------
        terms : sequence of str
            Names of coefficients, or of terms of a formula: ``["age", "C(region)"]``. All other coefficients
            are zero. Unlike a formula, a list does not code categories anew.
        intercept : bool
            Whether to keep the intercept, if there is one.
        """
        coefficients = self._coefficients_of(terms, intercept)
        index = [j for j, term in enumerate(self.terms) if term in coefficients]
        names = [self.terms[j] for j in index]
        by_term = {name: tuple(t for t in members if t in names) for name, members in self.by_term.items()}
        by_term = {name: members for name, members in by_term.items() if members}
        model = self.through(np.eye(len(self.terms))[:, index], names, by_term)
        return replace(model, intercept=self.intercept if self.intercept in names else "")

    def through(
        self, L: FloatArray, terms: Sequence[str], by_term: Mapping[str, tuple[str, ...]]
    ) -> ReleasedModel:
        """Return the nested model whose columns are those of this model times L (k, s)."""
        if self.omitted is not None:
            raise InputError("submodel needs the whole model; call it on that model")
        combinations, omitted = nested(self.released, self.matrix, self.shift, L)
        return replace(
            self,
            terms=tuple(terms),
            matrix=combinations @ self.matrix,
            shift=combinations @ self.shift,
            by_term=by_term,
            omitted=omitted if L.shape[1] < len(L) else None,
            rows_of=partial(_rows_times, L, self.rows_of, self.terms, tuple(terms)),
        )

    def t_test(self, r_matrix: Any) -> CoefficientTable:
        """Test hypotheses R β = q one by one.

        Parameters
        ----------
        r_matrix : str, array_like or tuple
            ``"age - 10 * smoker = 0, `pre-post` = 1"``; an array (q, k), or a pair of R and q. Put a name
            with marks in back-quotes or in ``Q("…")``.
        """
        R, null, names = constraints_of(r_matrix, self.terms, self.columns)
        intervals = self._along(R)
        limits = _limits(intervals)
        return CoefficientTable(
            terms=names,
            estimate=limits.mean(axis=0),
            interval=limits,
            level=self.level,
            null=null,
            note=why_none(intervals.codes, names, "hypothesis") if intervals.codes.any() else "",
        )

    def wald_test(self, r_matrix: Any) -> WaldResults:
        """Test hypotheses R β = q jointly; arguments are those of :meth:`t_test`."""
        R, null, _ = constraints_of(r_matrix, self.terms, self.columns)
        one = self.t_test((R, null))
        covariance = self.released.covariance(R @ self.matrix, self.omitted)
        return joint_test(one.effect - null, one.sd, covariance, one.note)

    def wald_test_terms(self) -> Any:
        """Test each term of the formula, with all levels of a category together; a data frame by term."""
        tests = {}
        for name, members in self.by_term.items():
            if self.intercept in members:
                continue
            R = np.array([[float(term == each) for term in self.terms] for each in members])
            tests[name] = self.wald_test(R)
        return frame_of(
            {
                "term": list(tests),
                "statistic": [each.statistic for each in tests.values()],
                "pvalue": [each.pvalue for each in tests.values()],
                "df_constraint": [each.df_num for each in tests.values()],
            }
        ).set_index("term")

    def predict(self, rows: Any, interval: float | None = None) -> Any:
        """Return the mean response at rows of data.

        With ``interval``, return a data frame with mean, mean_ci_lower and mean_ci_upper. These are intervals
        of the mean, not of a single response: the residual distribution is not released. A mean without a
        valid interval is NaN, and a warning gives the reason. If the target of a linear regression is robust,
        the name is robust_location instead: it is the mean if errors are symmetric.
        """
        columns, offset = self.rows_of(rows) if self.rows_of else (_numbers(rows, self.terms), np.zeros(1))
        if columns.ndim != 2 or columns.shape[1] != len(self.terms):
            raise InputError(
                f"rows must have {len(self.terms)} columns, {', '.join(self.terms)}, got shape "
                f"{columns.shape}"
            )
        return self.means(columns, offset, interval)

    def means(self, rows: FloatArray, offset: FloatArray, interval: float | None = None) -> Any:
        """Return the result of :meth:`predict` for rows of the terms, (n, k), and an offset (n,)."""
        level = None if interval is None else check_probability("interval", interval)
        intervals = self._along(rows, level)
        if (missing := intervals.codes.any(axis=1)).any():
            codes = np.bitwise_or.reduce(intervals.codes.astype(int), axis=0)[None]
            mean_of = f"{missing.sum()} of {len(rows)} rows"
            of_responses = f"the {self.released.of_responses} of"
            warn(why_none(codes, [mean_of], of_responses), UserWarning)
        limits = _limits(intervals) + offset
        mean = self.released.family.mean
        lower, middle, upper = (
            mean(each[:, None])[:, 0] for each in (limits[0], limits.mean(axis=0), limits[1])
        )
        if interval is None:
            return middle
        name = self.released.of_responses.replace(" ", "_")
        return frame_of({name: middle, f"{name}_ci_lower": lower, f"{name}_ci_upper": upper})

    def summary(self) -> Summary:
        """Return the coefficient table with its facts."""
        remarks = [self.promise, self.nested_note if self.omitted is not None else ""]
        parts = [term for term in self.terms if term != self.intercept]
        parts += [f"offset({self.offset})"] if self.offset else []
        title = f"{self.response or 'y'} ~ {' + '.join(parts) or '1'}"
        return Summary(title=title, coefficients=self.coefficients(), remarks=list(filter(None, remarks)))

    def __repr__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def _along(self, combinations: FloatArray, level: float | None = None) -> Interval:
        """Return the intervals of combinations (q, k) of the coefficients."""
        omitted = None if self.omitted is None else self.omitted.along(combinations)
        intervals = self.released.along(combinations @ self.matrix, level, omitted)
        assert intervals.center is not None
        return replace(intervals, center=intervals.center + (combinations @ self.shift)[:, None])

    def _coefficients_of(self, terms: Sequence[str], intercept: bool) -> set[str]:
        """Return the coefficients of a nested model; refuse terms that this model does not have."""
        terms = check_names("terms", terms)
        coefficients = {self.intercept} if intercept and self.intercept else set()
        names = list(dict.fromkeys([*self.by_term, *self.terms]))
        for each in terms:
            term = find_name(each, names, self.columns)
            if term is None:
                raise InputError(unknown_name("term", each, names))
            coefficients |= {*self.by_term.get(term, (term,))}
        if not coefficients:
            raise InputError("terms must name a coefficient, got none; name one")
        return coefficients


def _rows_times(
    L: FloatArray, rows_of: RowsOf | None, whole: Sequence[str], nested: Sequence[str], frame: Any
) -> tuple[FloatArray, FloatArray]:
    """Return rows of a nested model and the offset; ``rows_of`` returns those of the whole model."""
    columns, offset = rows_of(frame) if rows_of else (_numbers(frame, whole, nested), np.zeros(1))
    return columns @ L if columns.ndim == 2 and columns.shape[1] == len(L) else columns, offset


def _rows_after_offset(names: Sequence[str], frame: Any) -> tuple[FloatArray, FloatArray]:
    """Return rows of the terms, and the offset; it is the first of the columns."""
    rows = _numbers(frame, names)
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InputError(f"rows must have {len(names)} columns, the offset first, got shape {rows.shape}")
    return rows[:, 1:], rows[:, 0]


def _numbers(rows: Any, *terms: Sequence[str]) -> FloatArray:
    """Return rows as numbers, and refuse others without quoting a cell; columns are in the order of terms."""
    for names in terms:
        check_labels({"rows": rows}, names, "the coefficients")
    try:
        return np.asarray(rows, dtype=float)
    except (TypeError, ValueError):
        raise InputError("rows must hold numbers in rows of one length, got other values") from None


def _limits(intervals: Interval) -> FloatArray:
    """Return lower and upper confidence limits, (2, k), from the intervals of one estimate."""
    return np.asarray(intervals.limits(np.zeros_like(intervals.half_width))[..., 0])
