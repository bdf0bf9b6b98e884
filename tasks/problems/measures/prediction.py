"""How well fits predict rows that they were not trained on."""

from typing import Any

import numpy as np

import dpalgos
from data.store.references import FramesRef
from dpalgos.models.families import get_family
from dpalgos.rows.wide import Design
from tasks.problems.problem import Draw, HeadlineRun, Measure, Measured, Traits

FALSE_POSITIVE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
OVER_PRINTED = "over_printed"  # the error over the least that the paper printed of a private method at this ε
PRINTED = "printed"  # the diagnostic of an answer: that least error
MISCLASSIFICATION, SQUARED_ERROR, DEVIANCE = "misclassification", "mean_squared_error", "mean_deviance"


def _rate_name(rate: float) -> str:
    return f"tpr_at_fpr_{round(100 * rate):02d}"


CLASSIFICATION = (MISCLASSIFICATION, "auc", *map(_rate_name, FALSE_POSITIVE_RATES))


def _metric(traits: Traits) -> str:
    return {"": SQUARED_ERROR, "logistic": MISCLASSIFICATION}.get(traits.family, DEVIANCE)


def measure_losses(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    """Return what is measured on the test rows: `CLASSIFICATION`, or a mean loss, next to a printed one.

    A row is taken for 1 where its linear predictor is positive. Where predictors tie, the ROC curve takes the
    average over all orders of the tied rows.
    """
    scores = Design(draw.sample).predict(draw.columns(answer.estimate))
    y, mask = draw.sample.response(), draw.sample.row_mask
    assert mask is not None
    tests = ((scores[rows, r], y[rows]) for r, rows in enumerate(~mask.T))
    if traits.family == "logistic":
        losses_of_tests = [classification(*test) for test in tests]
        return {name: np.array([one[name] for one in losses_of_tests]) for name in CLASSIFICATION}
    if traits.family:
        family = get_family(traits.family)
        losses = [family.deviance(eta[:, None], family.encode(y)).mean() for eta, y in tests]
        return {DEVIANCE: np.array(losses)}
    errors = ((y[:, None] - scores) ** 2).mean(axis=0, where=~mask)
    printed = answer.diagnostics.get(PRINTED)
    return {SQUARED_ERROR: errors} | ({} if printed is None else {OVER_PRINTED: errors / printed})


def _exhibits(traits: Traits, run: HeadlineRun) -> dict[str, Any]:
    if traits.family != "logistic":
        return {}
    counts = run.table.label_counts if isinstance(run.table, FramesRef) else ()
    return {"classification": {"label_counts": list(counts)}}


# Losses on the rows that a fit was not trained on: of labels, counts or numbers.
PREDICTION = Measure(measure=measure_losses, metric=_metric, exhibits=_exhibits, has_limit=True)


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
