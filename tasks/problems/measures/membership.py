"""Membership inference: how well the rows that an estimator saw are distinguished from other rows.

Scores are standardized by what a non-member's would vary by and pooled over replicates, so that all
replicates of a cell are in one block.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

import dpalgos
from dpalgos.audit.rates import auc_per_data_set, pooled_auc_parts, threshold, true_positive_rates
from dpalgos.audit.tracing import standardized
from tasks.problems.problem import Draw, Problem
from tasks.problems.sources.candidates import Candidates

AUC = "auc"
# The true positive rate at the false positive rate 0.01 is tpr_at_fpr_01, and so on.
RATES = {
    f"tpr_at_fpr_{digits}": float(f"0.{digits}")
    for digits in ["001", "002", "005", "01", "02", "05", "1", "2", "5"]
}


class Membership(Problem):
    """Scores of an attack's candidates, of whom the estimator saw some."""

    layout: ClassVar[str] = "attack_page"
    in_one_block: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = (AUC,)
    false_positive_rates: ClassVar[dict[str, float]] = RATES

    def measure(self, draw: Draw, answer: dpalgos.Result) -> np.ndarray:
        """Return each replicate's scores as a column: members, the others, the sum's ratio, ℓ2 error."""
        assert isinstance(draw, Candidates)
        coef, attack = draw.columns(answer.estimate), draw.attack
        scores = standardized(attack, draw.X, draw.y, coef)
        sums = (scores * draw.inside).sum(axis=0) * attack.spread(coef) / attack.unbiased_sum
        truth = draw.truth if draw.truth.ndim == 2 else draw.truth[:, None]
        errors = np.linalg.norm(coef - truth, axis=0)
        return np.vstack([_chosen(scores, draw.inside), _chosen(scores, draw.outside), sums, errors])

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return each replicate's AUCs, rates at thresholds of all non-members, sums and errors."""
        columns = np.concatenate(measured, axis=1)
        members, outsiders, (sums, errors) = columns[:n], columns[n:-2], columns[-2:]
        rates = {
            AUC: auc_per_data_set(members, outsiders),
            "pooled_auc": pooled_auc_parts(members, outsiders),
        }
        for name, rate in RATES.items():
            above = threshold(outsiders, rate)
            if above is not None:
                rates[name] = true_positive_rates(members, above)
        sums = {"attack_sum_ratio": sums, "outsider_mean": outsiders.mean(axis=0)}
        return {**rates, **sums, "l2_error": errors}


def _chosen(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(scores.T[mask.T].reshape(scores.shape[1], -1).T)
