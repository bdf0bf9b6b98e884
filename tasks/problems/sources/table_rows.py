"""Random rows or users of a table; the truth is the non-private estimate from all its rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import dpalgos
from data.prepare.table_design import PreparedTable
from dpalgos.coefficients import covered
from dpalgos.typing import FloatArray
from tasks.own_table.file_units import FileUnits, file_units
from tasks.problems.problem import HeadlineRun

if TYPE_CHECKING:
    from tasks.problems.registered_table import RegisteredTable
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from data.prepare.table_design import draw_rows
from data.results.table import SIGNS
from dpalgos.formula.code import INTERCEPT
from tasks.cells import Cell, Replicates
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.measures.intervals import INTERVALS
from tasks.problems.problem import ALL, Draw, Kind, Traits, fit_cell
from tasks.problems.reference_answer import fit_without, with_weights
from tasks.problems.registered_table import RegisteredTable
from tasks.problems.theory import dense_rates

_LEVEL = 0.95


def own_coefficients(problem: "RegisteredTable", prepared: PreparedTable, run: HeadlineRun) -> dict[str, Any]:
    """Return the content of `reports.exhibits.own_table`.

    Slopes are per standard deviation of a column. Means and terms of a formula are in the units of the file.
    """
    reference, unit, plain = problem.full_answer(prepared), prepared.to_standard, prepared.column_names
    assert unit is not None
    slopes = slice(problem.slopes.start or 0, (problem.slopes.start or 0) + len(unit))
    units, numbers = problem.units_of_file, "terms"
    if not problem.response:
        units, numbers = file_units(problem.columns(), None), "means"
    elif units is None:
        units, numbers = replace(FileUnits.unchanged(plain), terms=plain[slopes], back=unit), "slopes"
    there = reference.columns.copy()
    there[slopes] &= unit.any(axis=1)
    assert problem.analyst_table is not None
    labels = next(
        (one.categories for one in problem.analyst_table.columns if one.name == problem.response), ()
    )
    class_names = [f"class {labels[k] if labels else k}" for k in range(len(reference.classes))]
    names, included = [*plain, *class_names], [*there, *reference.classes]
    left_out = [name for name, is_included in zip(names, included, strict=True) if not is_included]
    content: dict[str, Any] = {"left_out": left_out, "linear": not problem.family, "rows": [], "missing": ""}
    private = [cell for cell in run.cells if cell.calibration == "tight"]
    private.sort(key=lambda cell: not dpalgos.get_estimator(cell.estimator).has_interval)
    if not private:
        return {**content, "missing": "none ran"}
    n = len(prepared.X) if prepared.groups is None else int(prepared.groups[-1]) + 1
    cell, all_rows = replace(private[0], n=n), replace(run.replicates, n=n, first=0, count=1, of=1)
    try:
        draw = next(iter(problem.draws(all_rows, prepared)))
        with_interval = draw.answer_with_interval(cell, all_rows, _LEVEL)
        answer = with_interval or draw.answer(cell, all_rows)
    except dpalgos.InputError as refused:
        return {**content, "missing": str(refused)}
    matrix, offset = units.affine
    limits: FloatArray = np.full((len(matrix), 2), np.nan)
    if answer.intervals is not None:
        limits, _ = units.limits_of(answer.intervals, answer.estimate)
    coef, exact = (
        (matrix @ each.reshape(len(there), -1) + offset[:, None])[:, reference.classes]
        for each in (answer.estimate, reference.coef)
    )
    if coef.shape[1] > 1:  # of classes, whose coefficients are known up to their mean
        coef, exact = (each - each.mean(axis=1, keepdims=True) for each in (coef, exact))
    has_interval = np.isfinite(limits.sum(axis=1))
    coef = np.where(has_interval[:, None], limits.mean(axis=1, keepdims=True), coef)
    suffixes = [f", {class_names[k]}" * (coef.shape[1] > 1) for k in np.flatnonzero(reference.classes)]
    content["rows"] = [
        [
            name + suffix,
            float(coef[j, k]),
            *(map(float, limits[j]) if has_interval[j] else (None, None)),
            float(exact[j, k]),
        ]
        for j, name in enumerate(units.coef_names)
        if matrix[j].any() and not matrix[j, ~there].any()
        for k, suffix in enumerate(suffixes)
    ]
    about = answer.about
    return {
        **content,
        "covers": covered(about.target, about.family)
        if has_interval.any() and about and about.target
        else "",
        "numbers": numbers,
        "pays_interval": with_interval is not None,
        "estimator": cell.estimator,
        "form": cell.form,
        "epsilon": cell.epsilon,
        "n": n,
    }


def fit_weighted(weights: np.ndarray, draw: Draw, cell: Cell, replicates: Replicates) -> dpalgos.Result:
    """Return a cell's estimate; estimators without privacy take weights of rows (n,)."""
    estimator, own, y = dpalgos.get_estimator(cell.estimator), draw.sample, draw.sample.y
    if estimator.private:
        return fit_cell(draw, cell, replicates)
    if y is None:
        rows = own.means_of_users()
    elif estimator.task == "glm" and cell.params["family"] != "gaussian":
        rows = with_weights(dpalgos.Sample(own.X, y), weights)
    else:
        root = np.sqrt(weights)
        rows = dpalgos.Sample(root[:, None] * own.X, root * y)
    return fit_cell(replace(draw, sample=rows), cell, replicates)


class TableResamples(RegisteredTable):
    """Random rows of a table drawn with replacement: the table is the population itself."""

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        keywords: dict[str, Any] = {"family": self.family} if self.family else {}
        name = {"mean": "sample_mean", "glm": "glm"}.get(self.task, "ols")
        unused = np.random.default_rng(0)
        target = dpalgos.estimate(name, prepared.X, prepared.y, rng=unused, **keywords).estimate
        for replicate, rng in replicates.generators("rows"):
            rows = rng.integers(0, len(prepared.X), replicates.n)
            y = None if prepared.y is None else prepared.y[rows]
            yield Draw(sample=dpalgos.Sample(prepared.X[rows], y), first=replicate, target=target)


class TableSubsamples(RegisteredTable):
    """Random distinct rows of a table; the truth is in standard deviations.

    Replicates share X, so they are an axis of one draw. Where the table says whose row it is, users are drawn
    with all their rows, and each counts once.
    """

    batch: ClassVar[int] = ALL

    @property
    def traits(self) -> Traits:
        n_coefficients = len(self.covariates[self.slopes]) if self.response and not self.n_classes else 0
        return replace(
            super().traits,
            errors=("l2_error", SIGNS) if n_coefficients else ("l2_error",),
            measured=self._measured,
            panel_word="preparation",
            size_symbol="m",
            n_coefficients=n_coefficients,
            population=self.n_units,
        )

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        if (weights := prepared.weights_of_rows) is not None:
            yield from self._weighted_draws(replicates, prepared, weights)
            return
        mask = draw_rows(len(prepared.X), replicates.n, replicates.row_generators())
        reference, unit = self.full_answer(prepared), prepared.to_standard
        assert unit is not None
        yield Draw(
            sample=dpalgos.Sample(prepared.X, prepared.y, row_mask=mask, n_replicates=replicates.count),
            first=0,
            target=unit @ reference.coef,
            to_target=unit * reference.columns,
            to_signs=self._to_terms(unit),
            classes=None if reference.is_whole else reference.classes,
            fit=partial(fit_without, reference.columns),
        )

    def _to_terms(self, unit: np.ndarray) -> np.ndarray | None:
        if self.units_of_file is None:
            return None
        matrix, columns = self.units_of_file.affine[0], np.arange(len(unit)) + (self.slopes.start or 0)
        factors = unit[np.arange(len(unit)), columns]
        back = np.divide(1.0, factors, out=np.zeros(len(unit)), where=factors != 0)
        is_slope = [name != INTERCEPT for name in self.units_of_file.coef_names]
        return np.asarray(matrix[is_slope][:, columns] * back)

    def _weighted_draws(
        self, replicates: Replicates, prepared: PreparedTable, weights: np.ndarray
    ) -> Iterator[Draw]:
        units = np.arange(len(prepared.X)) if prepared.groups is None else prepared.groups
        target, n_units = prepared.to_standard @ self.full_answer(prepared).coef, int(units[-1]) + 1
        for replicate, rng in zip(replicates.numbers, replicates.row_generators(), strict=True):
            drawn = draw_rows(n_units, replicates.n, [rng])[units, 0]
            rows = prepared.taken(drawn)
            yield Draw(
                fit=partial(fit_weighted, weights[drawn]),
                sample=dpalgos.Sample(rows.X, rows.y, user_ids=rows.groups, row_weights=rows.weights),
                first=replicate,
                target=target,
                to_target=prepared.to_standard,
            )

    @property
    def _measured(self) -> str:
        units = self.n_units[1]
        if not self.response:
            answer, scale = "mean", "each column counted in its standard deviations"
        else:
            answer = "coefficients, the intercept left out"
            scale = "each coefficient times the standard deviation of its column"
            scale += "" if self.family else ", over that of the response"
        return (
            f"In every repetition m of the {units} are drawn without replacement, the same for all "
            f"estimators. Private estimators draw new noise. An error is the ℓ2 distance of an estimate "
            f"({answer}) from the non-private estimate from all {units}, {scale}."
        )

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        if not self.analyst_table or run.design is None:
            return {}
        return {"own_table": own_coefficients(self, self.load(run.design), run)}

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the paper's rates of a mean or a regression, in z-scores; none where users are protected."""
        if self.user_id:
            return {}
        return dense_rates(task, n, len(self.covariates), epsilon, delta)


KINDS = {
    "subsamples": Kind(TableSubsamples, ESTIMATION),
    "resamples": Kind(TableResamples, ESTIMATION, intervals=INTERVALS),
}
