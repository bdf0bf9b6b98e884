"""A regression as it was released, and the answers that follow from it at no cost in ε.

Nested models (:mod:`dpalgos.answers.nested`), tests of linear hypotheses, and intervals of predictions. What
is not released is not invented: there are no residuals, and no diagnostics of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpalgos.answers.contrasts import ContrastResults, WaldResults, constraints_of, joint_test
from dpalgos.answers.names import find_name
from dpalgos.answers.nested import nested
from dpalgos.coefficients import RATIOS, CoefficientTable, ShowsCoefficients, Summary, frame_of
from dpalgos.errors import InputError, unknown_name
from dpalgos.interval import Interval, why_none
from dpalgos.intervals.half_widths import check_level, normal_quantile
from dpalgos.intervals.regression import OmittedEffect, ReleasedRegression
from dpalgos.typing import FloatArray

NESTED = (
    "A nested model, by constrained least squares in the released metric{}: it follows from a release and "
    "spends nothing."
)
_FIRST_ORDER = ", to first order and with what normal rows would add to it"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedModel(ShowsCoefficients):
    """The coefficients of a release, or of a model nested in it, and what follows from them.

    Attributes
    ----------
    terms : tuple of str
        The names of the k coefficients.
    matrix, shift : (k, m) and (k,) arrays
        They are ``matrix`` times what was released, plus ``shift``.
    released : ReleasedRegression
    groups : mapping of str to tuple of str
        Terms of a formula → their coefficients, as the levels of a category.
    columns : tuple of str
        The names that a formula may use.
    response, intercept, offset : str
        Their names, or "".
    promise : str
        What the release protects.
    omitted : OmittedEffect, optional
        Of a nested model: what it omits from the released one.
    rows_of : callable
        Returns the rows (n, k) of the terms and the offset (n,), from rows of data.
    """

    terms: tuple[str, ...]
    matrix: FloatArray
    shift: FloatArray
    released: ReleasedRegression
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    response: str = ""
    intercept: str = ""
    offset: str = ""
    promise: str = ""
    omitted: OmittedEffect | None = None
    rows_of: Callable[[Any], tuple[FloatArray, FloatArray]] | None = None

    @property
    def level(self) -> float:
        """The confidence level of its intervals."""
        return self.released.level

    @property
    def note(self) -> str:
        """Why coefficients have no interval, in words."""
        return why_none(self._along(np.eye(len(self.terms))).codes, self.terms)

    @property
    def nested_note(self) -> str:
        """What a nested model is, and why some of its coefficients have no interval."""
        note = f"{self.note[:1].upper()}{self.note[1:]}." if self.note else ""
        kind = "" if self.released.family.is_linear else _FIRST_ORDER
        return " ".join(filter(None, [NESTED.format(kind), note]))

    def coefficients(self, names: Sequence[str] | None = None) -> CoefficientTable:
        """Return the coefficients with their intervals; NaN where there is no honest one."""
        ends = _ends(self._along(np.eye(len(self.terms))))
        family = self.released.family.name
        return CoefficientTable(
            terms=list(names or self.terms),
            estimate=ends.mean(axis=0),
            interval=ends,
            level=self.level,
            family=family if family in RATIOS else "",
            intercept=self.intercept,
        )

    def submodel(self, terms: Sequence[str], *, intercept: bool = True) -> ReleasedModel:
        """Return a model nested in this one.

        Parameters
        ----------
        terms : sequence of str
            Names of coefficients, or of a formula's terms: ``["age", "C(region)"]``.
        intercept : bool
            Whether it keeps the intercept, if there is one.
        """
        if self.omitted is not None:
            raise InputError("submodel is of the whole model; nest this one in that")
        wanted = self._kept(terms, intercept)
        kept = [j for j, term in enumerate(self.terms) if term in wanted]
        combinations, omitted = nested(self.released, self.matrix, self.shift, kept)
        rows_of = self.rows_of

        def rows(given: Any) -> tuple[FloatArray, FloatArray]:
            found, offset = rows_of(given) if rows_of else (np.asarray(given, dtype=float), np.zeros(1))
            return found[:, kept] if found.shape[1] == len(self.terms) else found, offset

        names = tuple(self.terms[j] for j in kept)
        groups = {name: tuple(t for t in own if t in names) for name, own in self.groups.items()}
        return replace(
            self,
            terms=names,
            matrix=combinations @ self.matrix,
            shift=combinations @ self.shift,
            groups={name: own for name, own in groups.items() if own},
            intercept=self.intercept if self.intercept in names else "",
            omitted=omitted if len(kept) < len(self.terms) else None,
            rows_of=rows,
        )

    def t_test(self, r_matrix: Any) -> ContrastResults:
        """Test hypotheses R β = q one by one.

        Parameters
        ----------
        r_matrix : str, array_like or tuple
            ``"age - 10 * smoker = 0, `pre-post` = 1"``; an array (q, k), or a pair of it and q. A name with
            marks stands in back-quotes or in ``Q("…")``.
        """
        R, null, names = constraints_of(r_matrix, self.terms, self.columns)
        found = self._along(R)
        ends = _ends(found)
        sd = (ends[1] - ends[0]) / (2 * normal_quantile(self.level))
        return ContrastResults(
            names=names,
            effect=ends.mean(axis=0),
            sd=sd,
            null=null,
            ends=ends.T,
            level=self.level,
            note=why_none(found.codes, names, "hypothesis") if found.codes.any() else "",
        )

    def wald_test(self, r_matrix: Any) -> WaldResults:
        """Test hypotheses R β = q together; arguments are those of :meth:`t_test`."""
        R, null, _ = constraints_of(r_matrix, self.terms, self.columns)
        one = self.t_test((R, null))
        covariance = self.released.covariance(R @ self.matrix, self.omitted)
        return joint_test(one.effect - null, one.sd, covariance, one.note)

    def wald_test_terms(self) -> Any:
        """Test each term of the formula, a category's levels together: a data frame by term."""
        groups = {name: own for name, own in self.groups.items() if self.intercept not in own}
        tests = {}
        for name, own in groups.items():
            R = np.array([[float(term == each) for term in self.terms] for each in own])
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

        With ``interval`` a data frame with mean, mean_ci_lower and mean_ci_upper: of the mean, not of a
        single response, whose spread is not released.
        """
        found, offset = self.rows_of(rows) if self.rows_of else (np.asarray(rows, dtype=float), np.zeros(1))
        if found.ndim != 2 or found.shape[1] != len(self.terms):
            raise InputError(
                f"rows must have {len(self.terms)} columns, {', '.join(self.terms)}, got shape {found.shape}"
            )
        return self.means(found, offset, interval)

    def means(self, rows: FloatArray, offset: FloatArray, interval: float | None = None) -> Any:
        """Return what :meth:`predict` does for rows of the terms, (n, k), and an offset (n,)."""
        level = None if interval is None else check_level("interval", interval)
        ends = _ends(self._along(rows, level)) + offset
        mean = self.released.family.mean
        lower, middle, upper = (mean(each[:, None])[:, 0] for each in (ends[0], ends.mean(axis=0), ends[1]))
        if interval is None:
            return middle
        return frame_of({"mean": middle, "mean_ci_lower": lower, "mean_ci_upper": upper})

    def summary(self) -> Summary:
        """Return the table with its facts."""
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
        found = self.released.along(combinations @ self.matrix, level, omitted)
        assert found.center is not None
        return replace(found, center=found.center + (combinations @ self.shift)[:, None])

    def _kept(self, terms: Sequence[str], intercept: bool) -> set[str]:
        """Return the coefficients that a nested model has; refuse terms that this one does not have."""
        if isinstance(terms, str):
            raise InputError(f"terms must be a list of names, got {terms!r}; pass [{terms!r}]")
        found = {self.intercept} if intercept and self.intercept else set()
        known = list(dict.fromkeys([*self.groups, *self.terms]))
        for each in terms:
            name = find_name(each, known, self.columns)
            if name is None:
                raise InputError(unknown_name("term", each, known))
            found |= {*self.groups.get(name, (name,))}
        if not found:
            raise InputError("terms must name a coefficient, got none; name one")
        return found


def _ends(found: Interval) -> FloatArray:
    """Return lower and upper ends, (2, k), of the intervals of one answer."""
    return np.asarray(found.ends(np.zeros_like(found.half_width))[..., 0])
