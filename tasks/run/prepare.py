"""Prepare the design of a panel about a dataset and store it."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from prefect import task

from data.frame_features import Scales, load_frames, scales
from data.ingest import DatasetRef, read_table
from data.refs import FramesRef
from data.registry import get_dataset
from data.store import home
from data.table_design import Design, design
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.problems.base import Prepared
from tasks.problems.group_differences import GroupDifferences
from tasks.problems.membership import GroupTracing
from tasks.problems.prepare_groups import groups_bytes, load_groups, prepare_groups
from tasks.problems.prepare_traced import holds_traced, load_traced, prepare_traced, traced_bytes
from tasks.problems.subsamples import Subsamples
from tasks.problems.train_test_split import RandomHalves


@task(name="prepare", **BY_KEY)
@guarded
def prepare(key: str, problem: dict[str, Any], table: dict[str, Any]) -> Record:
    """Return the record of the design that a panel's problem uses."""
    folder = home() / "cache" / "designs"
    if problem["kind"] == "group_tracing":
        traced = prepare_traced(GroupTracing(**problem), table)
        return written(folder / f"{key}.npz", traced_bytes(traced))
    if problem["kind"] == "group_differences":
        groups = prepare_groups(GroupDifferences(**problem), table)
        return written(folder / f"{key}.npz", groups_bytes(groups))
    if problem["kind"] == "random_halves":
        halves = RandomHalves(**problem)
        found = scales(FramesRef.from_dict(table), get_dataset(halves.dataset), halves.scaling)
        return written(folder / f"{key}.json", json.dumps(found.to_dict()).encode())
    about = Subsamples(**problem)
    prepared = design(
        read_table(DatasetRef.from_dict(table)),
        get_dataset(about.dataset),
        response=about.response,
        covariates=about.covariates,
        variant=about.prepare,
    )
    return written(folder / f"{key}.parquet", design_bytes(prepared))


def load_prepared(path: str | Path) -> Prepared:
    """Read back what `prepare` wrote; of frames that is how to scale them, and they are read anew."""
    if str(path).endswith(".json"):
        return load_frames(Scales.from_dict(json.loads(Path(path).read_bytes())))
    if not str(path).endswith(".npz"):
        return load_design(path)
    return load_traced(path) if holds_traced(path) else load_groups(path)


def design_bytes(prepared: Design) -> bytes:
    """Serialise a design as Parquet: a column per column, the rest as metadata."""
    facts = {
        "to_z": prepared.to_z.tolist(),
        "private": prepared.private,
        "note": prepared.note,
        "variant": prepared.variant,
    }
    columns = {name: prepared.X[:, j] for j, name in enumerate(prepared.column_names)}
    table = pa.table({**columns, "response": prepared.y})
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"design": json.dumps(facts)}), buffer)
    return buffer.getvalue()


def load_design(path: str | Path) -> Design:
    """Read a design back."""
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"design"])
    names = tuple(table.column_names[:-1])
    return Design(
        X=np.column_stack([table[name].to_numpy() for name in names]),
        y=table["response"].to_numpy().copy(),
        column_names=names,
        to_z=np.array(facts["to_z"]),
        private=facts["private"],
        note=facts["note"],
        variant=facts["variant"],
    )
