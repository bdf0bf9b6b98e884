"""Membership inference: how well the rows that an estimator saw are distinguished from other rows.

Scores are standardized by what a non-member's would vary by and pooled over replicates. Therefore all
replicates of a cell are in one block.
"""

from dataclasses import dataclass

import numpy as np

import dpalgos
from data.results.table import AUC, POOLED_AUC, TRUE_POSITIVE_RATES
from tasks.problems.attack_rates import auc_per_data_set, pooled_auc_parts, threshold, true_positive_rates
from tasks.problems.problem import Draw, Measure, Measured, Traits
from tasks.problems.tracing import Attack, standardized


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """An attack on an estimate, the judge of a draw: candidates X, y, of whom the estimator sees some."""

    attack: Attack
    truth: np.ndarray  # (d,) or (d, R): what the attack takes as the truth
    X: np.ndarray
    y: np.ndarray | None
    inside: np.ndarray  # (n, R) bool: which of the candidates the estimator sees
    outside: np.ndarray  # (n, R) bool: as many non-members


def measure_scores(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    """Return each replicate's scores as a column, of members and of others; their sum's ratio; the error."""
    rows: Candidates = draw.judge
    coef, attack = draw.columns(answer.estimate), rows.attack
    scores = standardized(attack, rows.X, rows.y, coef)
    truth = rows.truth if rows.truth.ndim == 2 else rows.truth[:, None]
    return {
        "members": _chosen(scores, rows.inside),
        "outsiders": _chosen(scores, rows.outside),
        "sums": (scores * rows.inside).sum(axis=0) * attack.spread(coef) / attack.unbiased_sum,
        "l2_error": np.linalg.norm(coef - truth, axis=0),
    }


def _metrics(traits: Traits, measured: Measured) -> Measured:
    members, outsiders = measured["members"], measured["outsiders"]
    thresholds = {name: threshold(outsiders, rate) for name, rate in TRUE_POSITIVE_RATES.items()}
    return {
        AUC: auc_per_data_set(members, outsiders),
        POOLED_AUC: pooled_auc_parts(members, outsiders),
        **{
            name: true_positive_rates(members, above)
            for name, above in thresholds.items()
            if above is not None
        },
        "attack_sum_ratio": measured["sums"],
        "outsider_mean": outsiders.mean(axis=0),
        "l2_error": measured["l2_error"],
    }


def _chosen(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(scores.T[mask.T].reshape(scores.shape[1], -1).T)


# Scores of an attack's candidates, of whom the estimator saw some.
MEMBERSHIP = Measure(
    measure=measure_scores,
    metric=lambda traits: AUC,
    metrics=_metrics,
    of_attacks=True,
    layout="attack_page",
)
