"""The result of an estimator: the estimate, the releases, and public facts about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.accounting.risk import AttackRisk, risk_of_events, unbounded_risk
from dpalgos.cautions import cautions
from dpalgos.coefficients import (
    CENTERED,
    SEEDED,
    SHRUNK,
    CoefficientTable,
    ShowsCoefficients,
    Summary,
    coefficient_names,
    frame_of,
    guarantee_of,
)
from dpalgos.errors import InputError
from dpalgos.goodness import binned, check_reach, goodness
from dpalgos.interval import Interval
from dpalgos.rows.blocks import float_array, largest_magnitude
from dpalgos.typing import FloatArray

if TYPE_CHECKING:  # the source of further estimates is imported when one is requested
    from dpalgos.answers.contrasts import WaldResults
    from dpalgos.answers.model import ReleasedModel


@dataclass(frozen=True, kw_only=True)
class AnswerFacts:
    """Public facts about an estimate: the estimator, the number of rows (users), and the guarantee."""

    estimator: str = ""
    n: int = 0
    epsilon: float = math.nan
    unit: str = ""
    level: float | None = None
    family: str = ""
    target: str = ""  # of the intervals
    has_intercept: bool = False  # whether the last coefficient is the intercept
    seeded: bool = False  # whether its noise can be drawn again
    has_offset: bool = False  # whether the first column is an offset, whose coefficient is 1


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(ShowsCoefficients):
    """The result of :func:`dpalgos.estimate`.

    Attributes
    ----------
    estimate : (d,) array, or (d, R) for R > 1 replicates
        The released estimate; with K classes (d, K), or (d, K, R).
    certified_epsilon : float
        The smallest ε, at ``delta``, that the events prove; NaN for a non-private estimator.
    delta : float
        The requested δ; NaN for a non-private estimator.
    events : tuple of Event
        The releases of one run.
    diagnostics : dict
        Facts computed from released or public quantities only.
    intervals : Interval or None
        The intervals if ``interval`` was requested; ``intervals.note`` gives the reasons for missing ones.
    path : (T + 1, d) array, or (T + 1, d, R), or None
        The released iterates of a descent, from the start to the estimate; with K classes (T + 1, d, K). They
        cost no ε in addition to the estimate.
    """

    estimate: FloatArray
    certified_epsilon: float
    delta: float
    events: tuple[Event, ...]
    diagnostics: dict[str, Any]
    intervals: Interval | None = None
    path: FloatArray | None = None
    about: AnswerFacts = field(default_factory=lambda: AnswerFacts())

    @property
    def interval(self) -> FloatArray | None:
        """Lower and upper confidence limits, (2, d) or (2, d, R), NaN without a valid interval; or None."""
        if self.intervals is None:
            return None
        limits = self.intervals.limits(self._answers)
        return limits[..., 0] if self.estimate.ndim == 1 else limits

    @property
    def _answers(self) -> FloatArray:
        """The estimate without classes, (d, R)."""
        return self.estimate.reshape(len(self.estimate), -1)

    def coefficients(
        self,
        names: Sequence[str] | None = None,
        *,
        combinations: FloatArray | None = None,
        shift: FloatArray | float = 0.0,
        intercept: str = "",
    ) -> CoefficientTable:
        """Return the coefficients with their intervals, without that of an offset, which is 1.

        Parameters
        ----------
        names : sequence of str, optional
            The names of the d columns.
        combinations : (k, d) array, optional
            If given, return the linear combinations of :meth:`along` instead, plus ``shift``.
        shift : (k,) array or float
        intercept : str
            The name of the intercept, or "".

        Raises
        ------
        InputError
            If the estimate has classes or replicates.
        """
        if self.estimate.ndim != 1:
            raise InputError(
                "coefficients need one estimate without classes; select a replicate or a class first"
            )
        estimate, interval = self.estimate, self.interval
        if combinations is not None:
            estimate, interval = self.along(combinations)
        terms = coefficient_names(names, len(estimate))
        if combinations is None and self.about.has_offset:
            terms, estimate = terms[1:], estimate[1:]
            interval = None if interval is None else interval[:, 1:]
        return CoefficientTable(
            terms=terms,
            estimate=estimate + shift,
            interval=None if interval is None else interval + shift,
            level=self.about.level,
            family=self.about.family,
            intercept=intercept,
        )

    @property
    def shrunk(self) -> Any:
        """The shrunken estimate by term, a series. Predictions use it."""
        return self._series("shrunk", "estimate")

    @property
    def rsquared(self) -> float:
        """R², if it was released."""
        if "r_squared" not in (goodness := self.goodness()):
            raise AttributeError(
                "rsquared was not released: only linear regressions with enough rows have it"
            )
        return float(goodness["r_squared"])

    def summary(self) -> Summary:
        """Return the coefficients with their facts, the guarantee, and the targets of the intervals."""
        table, fit = self.coefficients(), self.goodness()
        remarks = [f"n = {self.about.n:,}"]
        if "r_squared" in fit:
            remarks[0] += "; R² = {r_squared:.3f} [{r_squared_low:.3f}, {r_squared_high:.3f}]".format(**fit)
        centers = SHRUNK if np.isnan(table.limits).all() else f"{CENTERED} (.shrunk)"
        return Summary(
            title=self.about.estimator,
            coefficients=table,
            remarks=[
                *(*remarks, self.promise),
                *([f"{centers}."] if self.about.target else []),  # of estimators that shrink
                *([f"There is {fit['fit_note']}."] if "fit_note" in fit else []),
                *self.cautions,
            ],
        )

    def along(self, combinations: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return linear combinations of one estimate's coefficients with their intervals.

        Intervals use released covariances if there are any. Otherwise half-widths add up, which is
        conservative.

        Parameters
        ----------
        combinations : (k, d) array

        Returns
        -------
        value : (k,) array
        limits : (2, k) array or None
            Lower and upper confidence limits; NaN where there is no valid interval.

        Raises
        ------
        InputError
            If the combinations are not finite numbers, or not of d columns.
        """
        combinations = float_array("combinations", combinations, n_dimensions=2)
        largest_magnitude("combinations", [combinations])
        if combinations.shape[1] != len(self.estimate):
            raise InputError(
                f"combinations must have a column for each of {len(self.estimate)} coefficients, got "
                f"{combinations.shape[1]}"
            )
        value = combinations @ self.estimate
        if self.intervals is None:
            return value, None
        return value, self.intervals.along(combinations, self._answers).limits(value[:, None])[..., 0]

    @property
    def has_model(self) -> bool:
        """Whether it is one regression from which further estimates follow."""
        from dpalgos.intervals.regression import ReleasedRegression

        released = self.intervals.released if self.intervals else None
        return self.estimate.ndim == 1 and isinstance(released, ReleasedRegression)

    @property
    def model(self) -> ReleasedModel:
        """The releases of a regression with intervals, from which further estimates follow."""
        terms = coefficient_names(None, len(self.estimate))
        return self.released_model(terms, intercept=terms[-1] if self.about.has_intercept else "")

    def released_model(self, terms: Sequence[str], **facts: Any) -> ReleasedModel:
        """Return the released regression, with names for its coefficients.

        Parameters
        ----------
        terms : sequence of str
            The names of the coefficients; the first may be an offset.
        **facts
            Further attributes of :class:`dpalgos.answers.model.ReleasedModel`, such as ``intercept``.

        Raises
        ------
        InputError
            If the result is not one regression with intervals.
        """
        from dpalgos.answers.model import ReleasedModel
        from dpalgos.intervals.regression import ReleasedRegression

        if not self.has_model:
            why = (self.intervals and self.intervals.note) or "it has none"
            raise InputError(
                f"further answers follow from one regression with intervals, and of {self.about.estimator} "
                f"{why}; pass interval=0.95 to a preconditioned regression"
            )
        assert self.intervals is not None
        assert isinstance(self.intervals.released, ReleasedRegression)
        k = len(terms)
        alone = {term: (term,) for term in terms}
        settings: dict[str, Any] = {"matrix": np.eye(k), "shift": np.zeros(k), "promise": self.promise}
        settings |= {"by_term": alone, **facts}
        released = self.intervals.released
        return ReleasedModel(terms=tuple(terms), released=released, **settings).after_offset()

    def submodel(self, terms: Sequence[str]) -> ReleasedModel:
        """Return a model nested in this one; see :meth:`dpalgos.answers.model.ReleasedModel.submodel`.

        Parameters
        ----------
        terms : sequence of str
            The names of the coefficients to keep.

        Raises
        ------
        InputError
            If a name is unknown, or if the result is not one regression with intervals.
        """
        return self.model.submodel(terms)

    def t_test(self, r_matrix: Any) -> CoefficientTable:
        """Test linear hypotheses R β = q one by one.

        Parameters
        ----------
        r_matrix : str, (k, d) array_like or tuple
            Equations such as ``"x0 - 2 * x1 = 0, x2 = 1"``, or R, or a pair of R and q.

        Returns
        -------
        CoefficientTable
            Effects with confidence limits and p-values; NaN without a valid interval.

        Raises
        ------
        InputError
            If an equation is not linear in known names, or if the result is not one regression with
            intervals.
        """
        return self.model.t_test(r_matrix)

    def wald_test(self, r_matrix: Any) -> WaldResults:
        """Test linear hypotheses R β = q jointly; parameter and errors are those of :meth:`t_test`.

        Returns
        -------
        WaldResults
            The statistic, its degrees of freedom and the p-value.
        """
        return self.model.wald_test(r_matrix)

    def wald_test_terms(self) -> Any:
        """Test each term except the intercept; errors are those of :meth:`t_test`.

        Returns
        -------
        DataFrame
            Statistic, p-value and degrees of freedom by term.
        """
        return self.model.wald_test_terms()

    def conf_int(self) -> FloatArray:
        """Return the confidence limits, (d, 2); NaN if there is no interval."""
        if self.interval is None:
            return np.full((len(self.estimate), 2), np.nan)
        return np.asarray(self.interval.T)

    def glance(self, intercept: int | None = None, reach: Sequence[float] | None = None) -> Any:
        """Return the facts of the estimate as a data frame of one row.

        For a linear regression, it also has R² and the residual standard deviation with intervals if second
        moments were released and clipping cannot matter. Otherwise it has a ``fit_note``.

        Parameters
        ----------
        intercept : int, optional
            The position of the column of ones.
        reach : (d + 1,) sequence of float, optional
            The largest absolute values of columns and response, by public bounds.
        """
        check_reach(len(self.estimate), intercept, reach)
        return frame_of([{**self.facts, **self.goodness(intercept, reach)}])

    def goodness(self, intercept: int | None = None, reach: Sequence[float] | None = None) -> dict[str, Any]:
        """Return R² and the residual standard deviation; parameters are those of :meth:`glance`.

        Returns
        -------
        dict
            Empty if no second moments were released. ``fit_note`` alone if clipping may matter.
        """
        about = self.about
        return goodness(self.diagnostics, self.estimate, about.n, about.level, intercept, reach)

    def binned_fit(self) -> Any:
        """Return calibration and residuals by deciles of the predictions, which ``binned_fit`` released.

        Returns
        -------
        DataFrame
            Columns rows, predicted, observed, std_error (of observed) and residual_std. A value is NaN if
            there are few rows, or if it is below the noise.
        """
        return frame_of(binned(self.diagnostics))

    @property
    def facts(self) -> dict[str, Any]:
        """Number of rows, ε, δ, unit of privacy, estimator and software."""
        return {
            "n": self.about.n,
            "epsilon": self.about.epsilon,
            "delta": self.delta,
            "certified_epsilon": self.certified_epsilon,
            "unit_of_privacy": self.about.unit,
            "estimator": self.about.estimator,
            "level": self.about.level,
            "software": f"dpalgos {_version()}",
        }

    @property
    def cautions(self) -> list[str]:
        """Warnings about the estimate, based on released numbers only, one sentence each."""
        return cautions(self.diagnostics, self.hidden)

    @property
    def hidden(self) -> list[str] | None:
        """The names of coefficients that noise hides; None if no interval was computed."""
        return None if self.intervals is None else self.intervals.hidden(self.coordinate_names)

    @property
    def coordinate_names(self) -> list[str]:
        """The names of the coordinates of the estimate."""
        return coefficient_names(None, len(self.estimate))

    @property
    def promise(self) -> str:
        """The guarantee, and the errors that the intervals account for, in one sentence."""
        about = self.about
        facts = about.unit, about.epsilon, self.delta, about.level, about.target, about.family
        return guarantee_of(*facts, seeded=about.seeded)

    @cached_property
    def risk(self) -> AttackRisk:
        """A bound on what an attacker can learn about one row, user or report from the events."""
        if np.isnan(self.certified_epsilon):
            return unbounded_risk()
        return risk_of_events(self.events, self.delta)

    def __repr__(self) -> str:
        shape = "×".join(map(str, np.shape(self.estimate)))
        cost = (
            "not private"
            if np.isnan(self.certified_epsilon)
            else f"ε = {self.certified_epsilon:.4g} at δ = {self.delta:g}, {len(self.events)} events"
        )
        cost += f", {SEEDED[0].lower()}{SEEDED[1:]}" if self.about.seeded else ""
        with np.printoptions(precision=4, threshold=6, edgeitems=2):
            return f"Result({shape} estimate {self.estimate}, {cost})".replace("\n", "")


def _version() -> str:
    import dpalgos

    return dpalgos.__version__
