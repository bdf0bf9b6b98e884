"""Errors of estimates: their distance from the truth, and what else a source's rows allow to compare."""

import math
from collections.abc import Callable, Mapping

import numpy as np

import dpalgos
from data.results.table import SIGNS
from tasks.problems.problem import Draw, Measure, Measured, Traits

RMS_ERROR, SUP_ERROR, SUPPORT_RECALL = "rms_error", "sup_error", "support_recall"
EXCESS_RISK, EXCESS_LOSS = "excess_risk", "excess_loss"
LOG_SQUARED_ERROR = "log_squared_error"

Errors = np.ndarray  # (R,), one for each replicate


def excess_loss(draw: Draw, estimate: np.ndarray) -> Errors:
    """Return the expected loss of chosen candidates above the best one's; the target holds all losses."""
    assert draw.target is not None
    return np.asarray(draw.target @ draw.columns(estimate) - draw.target.min())


def largest_error(draw: Draw, estimate: np.ndarray) -> Errors:
    answer, target = draw.in_target_units(estimate)
    return np.asarray(np.abs(answer - target).max(axis=(0, 1)))


def right_signs(draw: Draw, estimate: np.ndarray) -> Errors:
    """Return how many entries, or terms of a formula, have the sign of the target's."""
    answer, target = draw.in_target_units(estimate)
    if draw.to_signs is not None:
        answer, target = (np.tensordot(draw.to_signs, each, axes=1) for each in (answer, target))
    return np.asarray(((answer * target) > 0).sum(axis=(0, 1)))


def support_recall(draw: Draw, estimate: np.ndarray) -> Errors:
    """Return the share of the target's s largest entries that are among those of the estimate."""
    assert draw.target is not None
    assert draw.s is not None
    true_support = largest(np.abs(draw.target)[:, None], draw.s)
    support = largest(np.abs(draw.columns(estimate)), draw.s)
    return np.asarray((true_support & support).sum(axis=0) / true_support.sum())


def log_squared_error(draw: Draw, estimate: np.ndarray) -> Errors:
    return np.asarray(2 * np.log(np.maximum(draw.distances(estimate), np.finfo(float).tiny)))


def largest(magnitudes: np.ndarray, s: int) -> np.ndarray:
    """Return which are the s largest of each column (d, R) and above zero; of equals, the first."""
    order = np.argsort(-magnitudes, axis=0, kind="stable")[:s]
    chosen = np.zeros(magnitudes.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=0)
    return np.asarray(chosen & (magnitudes > 0))


ERRORS: Mapping[str, Callable[[Draw, np.ndarray], Errors]] = {
    "l2_error": lambda draw, estimate: draw.distances(estimate),
    RMS_ERROR: lambda draw, estimate: draw.distances(estimate) / np.sqrt(draw.sample.n_features),
    LOG_SQUARED_ERROR: log_squared_error,
    EXCESS_RISK: lambda draw, estimate: draw.excess_risks(estimate),
    EXCESS_LOSS: excess_loss,
    SUP_ERROR: largest_error,
    SIGNS: right_signs,
    SUPPORT_RECALL: support_recall,
}


def measure_errors(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    errors = {name: ERRORS[name](draw, answer.estimate) for name in traits.errors}
    if not math.isnan(answer.certified_epsilon):
        return errors
    return errors | {name: np.full(draw.replicates, value) for name, value in draw.limits.items()}


# The errors that the source names, of estimates without regard to their intervals.
ESTIMATION = Measure(measure=measure_errors, metric=lambda traits: traits.errors[0], has_limit=True)
