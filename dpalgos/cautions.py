"""What released numbers say against an answer, in a sentence each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

UNRESOLVED = "unresolved_directions"
_SEARCHES = "rows above a level", "scores above a level"  # labels of counts


def at_the_last_level(label: str) -> str:
    """Return the name of the diagnostic which says whether a search ended at the largest candidate."""
    return f"{label}: the search ended at the largest level"


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
    if any(np.any(notes.get(at_the_last_level(label), False)) for label in _SEARCHES):
        said.append(
            "More rows than are clipped without harm lie beyond the largest clip level, so that the answer "
            "may be far off: are the units right? Columns and response should be of order one in public "
            "units."
        )
    return said
