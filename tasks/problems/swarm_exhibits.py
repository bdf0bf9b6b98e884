"""What a report shows of a flock beside its results: how a stand-in compares, a film, what was selected."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from prefect import task

from data.flock_summary import SOURCE, compare
from data.frame_features import stream_frames
from data.refs import FramesRef
from data.registry import get_dataset
from reports.page import Exhibits, FilmFrame, PrintedRow, SummaryRow
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.problems.train_test_split import RandomHalves
from tasks.study.spec import StudySpec

FILE = "exhibits.json"
_FILM = (0, 5, 10, 15)  # frames of a simulation that are shown


@task(name="exhibit", **BY_KEY)
@guarded
def exhibit(key: str, table: dict[str, Any], parts: list[Record], out: str) -> Record:
    """Write what is shown beside the results; rows of data only where they are simulated."""
    ref = FramesRef.from_dict(table)
    selected: dict[str, dict[str, int]] = {}
    for part in parts:
        for name in part.get("beside", {}):
            for cell, counts in json.loads(Path(part["path"]).with_name(name).read_bytes()).items():
                total = selected.setdefault(cell, {})
                for column, count in counts.items():
                    total[column] = total.get(column, 0) + count
    content: dict[str, Any] = {"label_counts": ref.label_counts, "selected": selected}
    if ref.data_source != "real":
        content["summary"] = [asdict(row) for row in compare(ref)]
        content["film"] = _film(ref)
    return written(Path(out) / FILE, json.dumps(content, sort_keys=True).encode())


def load_exhibits(spec: StudySpec, folder: Path) -> Exhibits | None:
    """Return what `exhibit` wrote, with the paper's printed numbers; None for a study without frames."""
    problem = spec.head_panel.problem
    if not isinstance(problem, RandomHalves):
        return None
    try:
        content = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        content = {}
    dataset = get_dataset(problem.dataset)
    return Exhibits(
        printed=tuple(
            PrintedRow(row.delta, row.epsilon, float(s), mean, spread)
            for row in spec.printed
            for s, mean, spread in zip(row.s, row.mean, row.spread, strict=True)
        ),
        label_counts=tuple(content.get("label_counts", ())),
        features=dataset.column_names,
        n_boids=dataset.n_boids,
        selected=content.get("selected", {}),
        film=tuple(FilmFrame(**frame) for frame in content.get("film", ())),
        summary=tuple(
            SummaryRow(row["column"], tuple(row["published"]), tuple(row["simulated"]))
            for row in content.get("summary", ())
        ),
        summary_source=SOURCE,
    )


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
