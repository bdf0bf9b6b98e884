"""Time to an event: hazard ratios by a private regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.names import check_names
from dpalgos.central.preconditioned.estimator import ALL, FIRST
from dpalgos.central.preconditioned.life_table import LIFE_TABLE_NOTE, LifeTable, functions_of
from dpalgos.coefficients import BASELINE, HAZARD, CoefficientTable, Summary, frame_of
from dpalgos.errors import InputError
from dpalgos.formula.allowed import SURVIVAL, read_formula
from dpalgos.formula.code import INTERCEPT
from dpalgos.formula.columns import (
    DECLARATIONS,
    CategoryColumn,
    Declared,
    NumberColumn,
    check_left_out,
    checked_periods,
    column_of,
    declared_columns,
    declared_rows,
)
from dpalgos.formula.design import design_of
from dpalgos.formula.fit import OF_DESIGN, FormulaResult, fit_design
from dpalgos.formula.survival_time import BASELINE_TERMS, FIRST_EVENT, SurvivalTime, size_of
from dpalgos.interval import normal_quantile
from dpalgos.release.checks import check_positive
from dpalgos.rows.units import count_users
from dpalgos.spelling import check_by_column
from dpalgos.typing import FloatArray

_FEWEST_PERIODS, _MOST_OF_HAZARD = 3, 0.5  # of a caution about periods


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
        return super().submodel([*check_names("terms", terms), *BASELINE[: len(self.time.time_columns)]])

    @property
    def cautions(self) -> list[str]:
        """Warnings about the estimate, based on released numbers only, one sentence each."""
        table = self.life_table
        if table is None or len(table.parts) < _FEWEST_PERIODS or table.parts.max() < _MOST_OF_HAZARD:
            return super().cautions
        period = self.time.labels[int(table.parts.argmax())]
        return [
            *super().cautions,
            f"Most of the cumulative hazard lies in one period, {period}. State shorter periods there.",
        ]

    @property
    def life_table(self) -> LifeTable | None:
        """The released life table; None if there are too few persons for one."""
        note = self.diagnostics.get(LIFE_TABLE_NOTE)
        return None if note is None else LifeTable.of_note(note, np.diff(self.time.periods))

    @cached_property
    def _periods(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The operational time in periods (K, B), their parts of it (K,), and the variance of its log."""
        table, lengths = self.life_table, np.diff(self.time.periods)
        used = len(self.time.time_columns)
        if table is None:  # operational time is time
            middle = functions_of(lengths / lengths.sum())
            return middle[:, :used], lengths / lengths.sum(), np.zeros(len(lengths))
        return table.times[:, :used], table.parts, table.log_variance

    def baseline(self) -> Any:
        """Return the hazard per unit of time by period, at zero of all numbers and at reference levels.

        A period has no hazard if its events are no more than noise may make.

        Returns
        -------
        DataFrame
            Columns period, hazard, ci_low and ci_high. Limits account for the errors of the life table.
        """
        terms, time = list(self.design.terms), self.time
        times, parts, variance = self._periods
        R = np.zeros((len(parts), len(terms)))
        R[:, terms.index(INTERCEPT)] = 1.0
        for name, values in zip(BASELINE, times.T, strict=False):
            R[:, terms.index(name)] = values
        terms_sum = self.model.t_test((R, np.zeros(len(R))))
        log_hazard = terms_sum.effect + np.log(parts / np.diff(time.periods))
        half = np.hypot((terms_sum.limits[1] - terms_sum.limits[0]) / 2, self._quantile * np.sqrt(variance))
        table = self.life_table
        nan_if_hidden = np.where(True if table is None else table.is_visible, 0.0, np.nan)
        low, high = (np.exp(log_hazard + sign * half + nan_if_hidden) for sign in (-1, 1))
        columns = {"period": time.labels, "hazard": np.exp(log_hazard + nan_if_hidden)}
        return frame_of(columns | {"ci_low": low, "ci_high": high})

    @property
    def _quantile(self) -> float:
        return normal_quantile(self.about.level or 0.95)

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
            cumulative hazard, to first order. They account for the errors of the life table.
        """
        time, design = self.time, self.design
        covariates = [each for each in design.reading.right if each in time.declared]
        rows = declared_rows(at, design.declared, covariates)
        times, parts, variance = self._periods
        n, n_periods = len(next(iter(rows.values()))), len(parts)
        if not n:
            raise InputError("at must have a row for each curve, got none")
        repeated = {name: np.repeat(each, n_periods) for name, each in rows.items()}
        columns, offset = design.terms_of(time.at(repeated, np.tile(times, (n, 1))))
        hazards = np.exp(columns @ np.asarray(self.params) + offset).reshape(n, n_periods) * parts
        H = np.cumsum(hazards, axis=1)
        weighted = hazards[:, :, None] * columns.reshape(n, n_periods, -1)
        gradient = (np.cumsum(weighted, axis=1) / H[:, :, None]).reshape(n * n_periods, -1)
        log_hazards = self.model.t_test((gradient, np.zeros(len(gradient))))
        of_table = np.sqrt(np.cumsum(hazards**2 * variance, axis=1)) / H
        half = np.hypot(
            (log_hazards.limits[1] - log_hazards.limits[0]) / 2, self._quantile * of_table.ravel()
        )
        ratio, H = np.exp(half), H.ravel()
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
        """Return the summary; it says which events of a person count."""
        summary = super().summary()
        which = "All events of a person count" if self.time.all_events else FIRST_EVENT
        return replace(summary, remarks=[*summary.remarks, f"{which}.", f"{BASELINE_TERMS}."])

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

    Hazards are proportional in the covariates, as in Cox regression. The shape of the baseline hazard follows
    from a released life table of public periods, and all follow-up of a person is protected together. If
    hazards are not proportional, a hazard ratio is an average over the follow-up until a cumulative hazard of
    1 or more is reached, ``hazard_limit``. A released check then gives a caution.

    Parameters
    ----------
    formula : str
        ``"Surv(time, event) ~ arm + age"``, or ``"Surv(start, stop, event) ~ …"`` with entry times. The right
        side is that of :func:`dpalgos.formula.ols`.
    frame : pandas.DataFrame or mapping of arrays
        A row per person; several with ``user``. The event is 1, or the second of two levels. Persons followed
        beyond the last cut point are censored there.
    periods : sequence of float, optional
        Public cut points of the life table. By default, 12 periods up to the upper bound of the time, or 16
        with entry times and if nμ is at least 3,000. At ε = 1 and δ = 10⁻⁶, μ is 0.24. Early periods are
        shorter. The logarithm of the baseline hazard may differ from that of all persons by a slope, and with
        16 periods by a curve.
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
    design = design_of(formula, declared, _size(formula, frame, user, declared, options))
    if design.survival is None:
        raise InputError(
            f"formula must have {SURVIVAL}(time, event) on its left, got {formula!r}; or call "
            "dpalgos.formula.ols, logit or poisson"
        )
    if not design.has_intercept:
        raise InputError(f"formula must keep its intercept, the baseline hazard, got {formula!r}")
    settings = design.survival.settings({**options, "events": events})
    design = replace(design, survival=replace(design.survival, all_events=events == ALL))
    return fit_design(SurvivalResult, settings.pop("family"), design, frame, user=user, **settings)


def _size(
    formula: str, frame: Any, user: str | None, declared: Declared, options: Mapping[str, Any]
) -> float:
    """Return nμ of the public number of persons and of the budget."""
    column = user or read_formula(formula, declared).left[-1]
    persons = column_of(frame, column, "user" if user else "the formula")
    n_persons = count_users(persons, len(persons)) if user else len(persons)
    return size_of(n_persons, *(check_positive(name, options.get(name)) for name in ("epsilon", "delta")))


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
