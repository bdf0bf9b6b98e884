"""Warnings about an estimate, based on released numbers only, one sentence each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpalgos.errors import AccuracyWarning, warn

UNRESOLVED = "unresolved_directions"
UNSURE_MEAN = "mean_response_unsure"
UNSURE_WEIGHT, CLIPPED_WEIGHTS = "mean_weight_unsure", "weights_clipped"
PROPORTIONAL = "proportional_hazards"  # the p-value of that hypothesis
OVERDISPERSED = "counts_overdispersed"
ROWS_BEYOND, SCORES_BEYOND = "rows_beyond_thresholds", "scores_beyond_thresholds"
_UNLIKELY = 0.01  # the p-value below which hazards are said not to be proportional


def cautions(notes: Mapping[str, Any], hidden: Sequence[str] | None = None) -> list[str]:
    """Return the warnings that the notes of a run call for; all notes are released or public.

    ``hidden`` are the names of the coefficients that noise hides, if intervals were computed. With several
    replicates, the worst one counts.
    """
    sentences = []
    helps = "Narrower public bounds, fewer columns, more rows or a larger ε would help."
    if hidden:
        coefficients = f"the coefficient{'s' * (len(hidden) > 1)} of {', '.join(hidden)}"
        omits = (
            "Other intervals are for a model without what is hidden: if that has an effect, they may miss."
        )
        sentences.append(f"Privacy noise hides {coefficients}. {omits} {helps}")
    elif hidden is None and (unresolved := int(np.max(notes.get(UNRESOLVED, 0)))):
        directions = "a direction" if unresolved == 1 else f"{unresolved} directions"
        sentences.append(f"Privacy noise dominates {directions} of the columns. {helps}")
    if np.any(notes.get(UNSURE_MEAN, False)):
        sentences.append(
            "The mean response, or the share of the rarer label, is not known within a factor of two. More "
            "rows or a larger ε would help."
        )
    if np.any(notes.get(UNSURE_WEIGHT, False)):
        sentences.append(
            "The total weight is not known well, and the estimate may be far off. A smaller max_weight or "
            "max_rows, more rows or a larger ε would help."
        )
    if np.any(notes.get(CLIPPED_WEIGHTS, False)):
        sentences.append(
            "More than 2% of the total weight belongs to rows whose weights were clipped to max_weight. If "
            "weights are informative, the estimate is for another population. A larger max_weight would help."
        )
    if np.min(notes.get(PROPORTIONAL, 1.0)) < _UNLIKELY:
        sentences.append(
            "Hazards are not proportional: coefficients differ between the earlier and the later half of the "
            "events. Each is an average over follow-up, and early events weigh more. Compare survival "
            "curves. A larger hazard_limit is closer to Cox regression, and less accurate."
        )
    if np.any(notes.get(OVERDISPERSED, False)):
        sentences.append(
            "Counts vary by more than their means explain. If the variation depends on a column, its slope "
            "may be biased. interval_target='least squares' accounts for this, with wider intervals."
        )
    if any(np.any(notes.get(name, False)) for name in (ROWS_BEYOND, SCORES_BEYOND)):
        sentences.append(
            "Too many rows exceed the largest clipping threshold, and the estimate may be far off. Check the "
            "units: columns and response should be of order one in public units."
        )
    return sentences


def warn_of_hidden(hidden: Sequence[str] | None) -> None:
    """Warn about coefficients that noise hides, by name."""
    for caution in cautions({}, hidden):
        warn(caution, AccuracyWarning)
