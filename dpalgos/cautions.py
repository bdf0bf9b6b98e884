"""Warnings about an estimate, based on released numbers only, one sentence each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

UNRESOLVED = "unresolved_directions"
UNSURE_MEAN = "mean_response_unsure"
SLOPES_HELP = "slopes_help"  # the probability that slopes predict better than the intercept alone
UNSURE_WEIGHT, CLIPPED_WEIGHTS = "mean_weight_unsure", "weights_clipped"
ROWS_BEYOND, SCORES_BEYOND = "rows_beyond_thresholds", "scores_beyond_thresholds"


def cautions(notes: Mapping[str, Any]) -> list[str]:
    """Return the warnings that the notes of a run call for; all notes are released or public.

    With several replicates, the worst one counts.
    """
    sentences = []
    if hidden := int(np.max(notes.get(UNRESOLVED, 0))):
        directions = "a direction" if hidden == 1 else f"{hidden} directions"
        sentences.append(
            f"Privacy noise dominates {directions} of the columns; the estimate is uninformative there. "
            "Narrower public bounds, fewer columns, more rows or a larger ε would help."
        )
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
    if any(np.any(notes.get(name, False)) for name in (ROWS_BEYOND, SCORES_BEYOND)):
        sentences.append(
            "Too many rows exceed the largest clipping threshold, and the estimate may be far off. Check the "
            "units: columns and response should be of order one in public units."
        )
    return sentences
