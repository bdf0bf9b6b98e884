"""Report content about a flock: a stand-in's summary, frames of a simulation, selected features."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from data.prepare.frame_features import stream_frames
from data.registry import get_dataset
from data.standins.flock_summary import SOURCE, compare
from data.store.references import FramesRef

_FILM = (0, 5, 10, 15)  # frames of a simulation that are shown


def flock_exhibits(ref: FramesRef, selected: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the content of `reports.exhibits.boids`; rows of data only where they are simulated."""
    about = get_dataset(ref.name)
    shown: dict[str, Any] = {
        "features": list(about.column_names),
        "n_boids": about.n_boids,
        "selected": selected,
        "film": [],
        "summary": [],
        "summary_source": SOURCE,
    }
    if ref.data_source == "real":
        return shown
    return {**shown, "summary": [asdict(row) for row in compare(ref)], "film": _film(ref)}


def _film(ref: FramesRef) -> list[dict[str, Any]]:
    """Return frames of the first simulation of either label."""
    length = ref.frames_per_simulation
    found: dict[int, list[dict[str, Any]]] = {}
    for block, labels in stream_frames(ref):
        starts = range(0, len(labels) - length + 1, length) if len(labels) >= length else ()
        for start in starts:
            label = int(labels[start])
            if label in found:
                continue
            film = np.round(block[:, start : start + length].astype(np.float64), 1)
            boids = film.reshape(-1, len(get_dataset(ref.name).columns), length)
            found[label] = [
                {
                    "label": label,
                    "frame": frame + 1,
                    **{
                        name: boids[:, place, frame].tolist()
                        for place, name in enumerate(("x", "y", "x_velocity", "y_velocity"))
                    },
                }
                for frame in _FILM
            ]
        if len(found) == 2:
            break
    return [frame for label in sorted(found, reverse=True) for frame in found[label]]
