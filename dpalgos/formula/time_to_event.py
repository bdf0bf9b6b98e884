"""Time to an event: hazard ratios by a private regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.names import check_names
from dpalgos.coefficients import HAZARD, CoefficientTable, Summary, frame_of
from dpalgos.core.record import UNRESOLVED
from dpalgos.errors import InputError, shown
from dpalgos.formula.allowed import PERIOD, SURVIVAL, read_formula
from dpalgos.formula.code import INTERCEPT
from dpalgos.formula.columns import (
    DECLARATIONS,
    CategoryColumn,
    Declared,
    NumberColumn,
    checked_periods,
    column_of,
    declared_columns,
    declared_rows,
)
from dpalgos.formula.design import design_of
from dpalgos.formula.fit import OF_DESIGN, FormulaResult, fit_design
from dpalgos.formula.survival_time import SurvivalTime, default_periods
from dpalgos.release.checks import check_by_column, check_left_out, check_positive
from dpalgos.rows.units import user_codes

FIRST, ALL = "first", "all"  # events of a person that count
FIRST_EVENT = "Follow-up of a person ends at the first event"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SurvivalResult(FormulaResult):
    """A private regression of a time to an event: log hazard ratios, and the baseline hazard by period."""

    @property
    def time(self) -> SurvivalTime:
        """The time, the event, and the public periods."""
        assert self.design.survival is not None
        return self.design.survival

    def coefficients(self, names: Sequence[str] | None = None, **others: Any) -> CoefficientTable:
        """Return log hazard ratios with their intervals, and hazard ratios; the rest is the baseline."""
        return replace(super().coefficients(names, **others), family=HAZARD)

    @property
    def model(self) -> ReleasedModel:
        """The releases, from which further estimates follow."""
        return replace(super().model, ratios=HAZARD)

    def submodel(self, terms: Sequence[str] | str) -> ReleasedModel:
        """Return a model nested in this one, by a list of terms or a formula; the baseline stays."""
        if isinstance(terms, str):
            return super().submodel(terms)
        return super().submodel([*check_names("terms", terms), *[PERIOD][: len(self.time.labels) - 1]])

    @property
    def cautions(self) -> list[str]:
        """Warnings about the estimate, based on released numbers only, one sentence each."""
        found = super().cautions
        if np.max(self.diagnostics.get(UNRESOLVED, 0)) and len(self.time.labels) > 1:
            found.append("Each period is a column. Fewer periods would help.")
        return found

    def baseline(self) -> Any:
        """Return the hazard per unit of time by period, at zero of all numbers and at reference levels.

        Returns
        -------
        DataFrame
            Columns period, hazard, ci_low and ci_high.
        """
        terms, time = list(self.design.terms), self.time
        R = np.zeros((len(time.labels), len(terms)))
        R[:, terms.index(INTERCEPT)] = 1.0
        members = [name for name in self.design.by_term.get(PERIOD, ()) if name in terms]
        for k, name in enumerate(members, len(time.labels) - len(members)):
            R[k, terms.index(name)] = 1.0
        found = self.model.t_test((R, np.zeros(len(R))))
        columns = {"period": time.labels, "hazard": np.exp(found.effect)}
        low, high = np.exp(found.limits)
        return frame_of(columns | {"ci_low": low, "ci_high": high})

    def survival(self, at: Any) -> Any:
        """Return survival at the cut points for covariates, with pointwise limits.

        Parameters
        ----------
        at : pandas.DataFrame or mapping of arrays
            The covariates, a row for each curve.

        Returns
        -------
        DataFrame
            Columns row, time, survival, ci_low and ci_high. Limits are those of the logarithm of the
            cumulative hazard, to first order.
        """
        time, design = self.time, self.design
        covariates = [each for each in design.reading.right if each in time.declared]
        rows = declared_rows(at, design.declared, covariates)
        n, n_periods = len(next(iter(rows.values()))), len(time.labels)
        if not n:
            raise InputError("at must have a row for each curve, got none")
        repeated = {name: np.repeat(each, n_periods) for name, each in rows.items()}
        columns, offset = design.terms_of(time.at_periods(repeated, np.tile(np.arange(n_periods), n)))
        beta, widths = np.asarray(self.params), np.diff(time.periods) / time.longest_exposure
        hazards = np.exp(columns @ beta + offset).reshape(n, n_periods) * widths
        H = np.cumsum(hazards, axis=1)
        weighted = hazards[:, :, None] * columns.reshape(n, n_periods, -1)
        gradient = (np.cumsum(weighted, axis=1) / H[:, :, None]).reshape(n * n_periods, -1)
        found = self.model.t_test((gradient, np.zeros(len(gradient))))
        low, high = found.limits
        ratio, H = np.exp((high - low) / 2), H.ravel()
        return frame_of(
            {
                "row": np.repeat(np.arange(n), n_periods),
                "time": np.tile(time.periods[1:], n),
                "survival": np.exp(-H),
                "ci_low": np.exp(-H * ratio),
                "ci_high": np.exp(-H / ratio),
            }
        )

    def summary(self) -> Summary:
        """Return the summary; of rows of persons, it says which events count."""
        found = super().summary()
        which = "All events of a person count" if self.time.all_events else FIRST_EVENT
        return replace(found, remarks=[*found.remarks, f"{which}."])

    def predict(self, frame: Any, interval: float | None = None) -> Any:
        """Refuse: a prediction is a curve, :meth:`survival`."""
        raise InputError("predict has no single value of a time to an event; call survival(at=…)")

    def marginal_means(self, name: str, interval: float = 0.95) -> Any:
        """Refuse: the mean response of a level is a curve, :meth:`survival`."""
        raise InputError(f"marginal_means has no single value of a time for {name!r}; call survival(at=…)")

    def bin_fit(self, frame: Any, **options: Any) -> FormulaResult:
        """Refuse: the fit by deciles protects rows, and persons have several."""
        raise InputError("bin_fit is not for times to an event; call dpalgos.formula.survival(…) by group")


def phreg(
    formula: str,
    frame: Any,
    *,
    periods: Sequence[float] | None = None,
    resolution: float | None = None,
    user: str | None = None,
    events: str = FIRST,
    **options: Any,
) -> SurvivalResult:
    """Fit a private regression of a time to an event by formula.

    The hazard is constant within public periods and proportional in the covariates: a Poisson regression of
    person-periods, and all of a person's are protected together. Finer periods come closer to Cox regression.
    If hazards are not proportional, a hazard ratio is an average over the follow-up, with weights that depend
    on when events and censoring happen.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ arm + age"``, or ``"Surv(start, stop, event) ~ …"`` with entry times. The right
        side is that of :func:`dpalgos.formula.ols`.
    frame : pandas.DataFrame or mapping of arrays
        A row per person; several with ``user``. The event is 1, or the second of two levels. Persons followed
        beyond the last cut point are censored there.
    periods : sequence of float, optional
        Public cut points. By default, periods of equal length up to the upper bound of the time. Their number
        follows from the number of persons n and from μ(ε, δ): 1, 2, 4 or 8 for nμ below 500, 6,000, 24,000,
        or above. At ε = 1 and δ = 10⁻⁶, μ is 0.24.
    resolution : float, optional
        The public number of which recorded times are multiples, such as 1 for whole years. An event at t then
        happened in the time of that length before t, on average in its middle.
    user : str, optional
        The column of persons, if they have several rows. The guarantee is then for persons. Each row counts
        with its own covariates. Without it, the guarantee is for rows: each is taken as a person.
    events : str, default "first"
        With ``user``: "first" ends a person's follow-up at the first event, "all" counts recurrent events, as
        Andersen & Gill do. A person's sum of scores is then clipped as that of a person's counts.
    **options
        Those of :func:`dpalgos.formula.ols`: ``epsilon``, ``delta``, ``bounds``, ``levels``, ….

    Returns
    -------
    SurvivalResult

    Raises
    ------
    InputError
        If something is undeclared, or would be learned from rows; no value of the rows is ever printed.
    """
    check_left_out(options, *OF_DESIGN, "person_weight")
    declared = declared_times(formula, periods, resolution, options)
    if events not in (FIRST, ALL):
        raise InputError(f"events must be {FIRST!r} or {ALL!r}, got {shown(events)}")
    n_periods = 1 if periods is not None else _default_periods(formula, frame, user, declared, options)
    design = design_of(formula, declared, n_periods)
    if design.survival is None:
        raise InputError(
            f"formula must have {SURVIVAL}(time, event) on its left, got {formula!r}; or call "
            "dpalgos.formula.ols, logit or poisson"
        )
    if not design.has_intercept:
        raise InputError(f"formula must keep its intercept, the first period's hazard, got {formula!r}")
    if events == ALL and user is not None:
        design = replace(design, survival=replace(design.survival, all_events=True))
    settings = design.survival.settings(options)
    return fit_design(SurvivalResult, settings.pop("family"), design, frame, user=user, **settings)


def _default_periods(
    formula: str, frame: Any, user: str | None, declared: Declared, options: Mapping[str, Any]
) -> int:
    """Return the number of periods that suits the public number of persons and the budget."""
    given = read_formula(formula, declared).left
    persons = column_of(frame, user or given[-1], "user" if user else "the formula")
    n_persons = int(user_codes(persons, len(persons)).max()) + 1 if user else len(persons)
    budget = [check_positive(name, options.get(name)) for name in ("epsilon", "delta")]
    return default_periods(n_persons, *budget)


def declared_times(
    formula: str, periods: Any, resolution: Any, options: dict[str, Any]
) -> dict[str, NumberColumn | CategoryColumn]:
    """Return the declared columns; the time has its periods, and the event is 0 or 1 by default."""
    declarations = {key: check_by_column(key, options.pop(key, None)) for key in DECLARATIONS}
    bounds, levels = declarations["bounds"], declarations["levels"]
    left = read_formula(formula, [*bounds, *levels]).left
    if len(left) not in (2, 3):
        raise InputError(f"formula must have {SURVIVAL}(time, event) on its left, got {formula!r}")
    *times, event = left
    cuts = () if periods is None else checked_periods(periods)
    step = 0.0 if resolution is None else check_positive("resolution", resolution)
    for name in times:
        if cuts:
            bounds.setdefault(name, (cuts[0], cuts[-1]))
        if name not in bounds:
            raise InputError(
                f"bounds must have the longest time, e.g. {{{name!r}: (0, 10)}}, or state periods"
            )
    if event not in bounds:
        levels.setdefault(event, (0, 1))
    declared = declared_columns("poisson", formula, **declarations)
    if isinstance(last := declared[times[-1]], NumberColumn):
        declared[times[-1]] = replace(last, periods=cuts, resolution=step)
    return declared
