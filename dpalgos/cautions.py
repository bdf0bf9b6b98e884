"""What released numbers say against an answer, in a sentence each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpalgos.steps.clipping import ROWS_ABOVE, SCORES_ABOVE, at_the_last_level
from dpalgos.typing import BoolArray

UNRESOLVED = "unresolved_directions"


def beyond_levels(notes: Mapping[str, Any]) -> BoolArray:
    """Return where more rows than are clipped without harm lie beyond the largest level, (R,) or ()."""
    rows, scores = (notes.get(at_the_last_level(label), False) for label in (ROWS_ABOVE, SCORES_ABOVE))
    return np.asarray(np.logical_or(rows, scores))


def cautions(notes: Mapping[str, Any]) -> list[str]:
    """Return the sentences that the notes of a run, all released or public, call for.

    Of several replicates the worst one counts.
    """
    said = []
    if hidden := int(np.max(notes.get(UNRESOLVED, 0))):
        directions = "a direction" if hidden == 1 else f"{hidden} directions"
        said.append(
            f"Noise hides {directions} of the columns, along which the answer says next to nothing; narrower "
            "public bounds, fewer columns, more rows or a larger ε would help."
        )
    if beyond_levels(notes).any():
        said.append(
            "More rows than are clipped without harm lie beyond the largest clip level, so that the answer "
            "may be far off: are the units right? Columns and response should be of order one in public "
            "units."
        )
    return said
