"""How well fits predict rows that they were not trained on."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import dpalgos
from data.store.references import FramesRef
from dpalgos.models.families import get_family
from dpalgos.rows.wide import Design
from tasks.problems.problem import Draw, HeadlineRun, Problem
from tasks.problems.sources.table_folds import OVER_PRINTED, PRINTED

if TYPE_CHECKING:
    from reports.page import Finding

FALSE_POSITIVE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
MISCLASSIFICATION, SQUARED_ERROR, DEVIANCE = "misclassification", "mean_squared_error", "mean_deviance"


def _rate_name(rate: float) -> str:
    """Return the name of the true positive rate at a false positive rate: ``tpr_at_fpr_01``."""
    return f"tpr_at_fpr_{round(100 * rate):02d}"


CLASSIFICATION = (MISCLASSIFICATION, "auc", *map(_rate_name, FALSE_POSITIVE_RATES))


class Prediction(Problem):
    """Losses on the rows that a fit was not trained on: of labels, counts or numbers."""

    errors: ClassVar[tuple[str, ...]] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        if self.response_family == "logistic":
            return CLASSIFICATION
        return (DEVIANCE,) if self.response_family else (SQUARED_ERROR,)

    def measure(self, draw: Draw, answer: dpalgos.Result) -> np.ndarray:
        """Return what is measured on the test rows: `CLASSIFICATION`, or a mean loss, next to a printed one.

        A row is taken for 1 where its linear predictor is positive. Where predictors tie, the ROC curve
        takes the average over all orders of the tied rows.
        """
        scores = Design(draw.sample).predict(draw.columns(answer.estimate))
        y, mask = draw.sample.response(), draw.sample.row_mask
        assert mask is not None
        if self.response_family == "logistic":
            measured = [classification(scores[rows, r], y[rows]) for r, rows in enumerate(~mask.T)]
            return np.array([[one[name] for one in measured] for name in CLASSIFICATION])
        if self.response_family:
            family = get_family(self.response_family)
            tests = [(scores[rows, r], y[rows]) for r, rows in enumerate(~mask.T)]
            return np.array([[family.deviance(eta[:, None], family.encode(y)).mean() for eta, y in tests]])
        errors = ((y[:, None] - scores) ** 2).mean(axis=0, where=~mask)
        printed = answer.diagnostics.get(PRINTED)
        return np.stack([errors] if printed is None else [errors, errors / printed])

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return losses, and what they are over the printed one where there is one."""
        values = np.concatenate(measured, axis=1)
        return dict(zip((*self.measures, OVER_PRINTED), values, strict=False))

    def selected(self, draw: Draw, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates each column has a coefficient, of sparse estimates."""
        counts = (draw.columns(estimate) != 0).sum(axis=1)
        if counts.sum() > draw.replicates * len(counts) / 2:
            return {}
        return {draw.column_names[j]: int(counts[j]) for j in np.flatnonzero(counts)}

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        shown = super().exhibits(run)
        if self.response_family == "logistic":
            counts = run.table.label_counts if isinstance(run.table, FramesRef) else ()
            shown["classification"] = {"label_counts": list(counts)}
        return shown

    def findings(self, exhibits: Mapping[str, Any]) -> tuple["Finding", ...]:
        """Return the error of always predicting the more frequent label."""
        from reports.page import Finding

        counts = exhibits.get("classification", {}).get("label_counts", ())
        if not counts:
            return ()
        rate = min(counts) / sum(counts)
        text = f"Predicting the more frequent label for every row is wrong for {rate:.3f} of the rows."
        return (Finding(label="the more frequent label", value=rate, text=text, about="Without a look at x"),)


def classification(scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return misclassification, AUC and true positive rates at fixed false positive rates.

    The rates are those of `FALSE_POSITIVE_RATES`; without rows of both labels they are NaN.
    """
    levels, place = np.unique(scores, return_inverse=True)
    ones = np.bincount(place, weights=y, minlength=len(levels))[::-1]
    zeros = np.bincount(place, weights=1 - y, minlength=len(levels))[::-1]
    if ones.sum() and zeros.sum():
        hit = np.concatenate([[0.0], np.cumsum(ones) / ones.sum()])
        alarm = np.concatenate([[0.0], np.cumsum(zeros) / zeros.sum()])
        area = float(np.trapezoid(hit, alarm))
        # Of several rates at one false positive rate, the highest is attained.
        last = np.append(np.diff(alarm) > 0, True)
        rates = np.interp(FALSE_POSITIVE_RATES, alarm[last], hit[last])
    else:
        area, rates = float("nan"), np.full(len(FALSE_POSITIVE_RATES), np.nan)
    return {
        MISCLASSIFICATION: float(np.mean((scores > 0) != (y > 0))),
        "auc": area,
        **{_rate_name(rate): float(v) for rate, v in zip(FALSE_POSITIVE_RATES, rates, strict=True)},
    }
