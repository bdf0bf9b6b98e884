"""Swarm: the official zip, frames as a classification problem, and a simulated flock against its physics."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.prepare.frame_features import CLIP, Scales, load_frames, scales, stream_frames
from data.prepare.table_design import PreparedTable, draw_training_rows
from data.simulations.flock import FRAMES, simulate
from data.store.references import Repair, ref_from_dict

N = 100
LABELS = {"Flocking": "Class", "Aligned": "Class", "Grouped": "Class"}


def made(n, seed=0, n_boids=200):
    """Values with two decimals within the public bounds, sorted by x1, and labels."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, (n, n_boids, 12)).round(2)
    values[:, :, 10:] = rng.integers(0, 199, (n, n_boids, 2))
    values = values.reshape(n, -1)
    return values[np.argsort(values[:, 0])], rng.integers(0, 2, n)


def lines_of(dataset, values, labels):
    """The published text: blanks around names, the last row without its x1."""
    header = " ,".join([*dataset.frame_columns, f" {dataset.label} "])
    rows = [
        ",".join([*(f"{v:g}" for v in row), str(label)]) for row, label in zip(values, labels, strict=True)
    ]
    rows[-1] = rows[-1][rows[-1].index(",") :]
    return [header, *rows]


def zipped(texts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(f"Swarm Behavior Data/{name}.csv", text)
    return buffer.getvalue()


def read_back(ref):
    blocks = list(stream_frames(ref))
    return np.hstack([block for block, _ in blocks]).T, np.concatenate([labels for _, labels in blocks])


def test_the_official_zip_through_a_web_server(tmp_path, web):
    dataset = replace(get_dataset("swarm"), n_rows=N, n_boids=3)
    values, labels = made(N, n_boids=3)
    texts = {name: "\n".join(lines_of(dataset, values, (labels + i) % 2)) for i, name in enumerate(LABELS)}
    url = web.serve("/swarm+behavior.zip", zipped(texts))
    dataset = replace(dataset, source=replace(dataset.source, url=url))
    raw = fetch(dataset, home=tmp_path, mirror=None, offline=False)
    ref = to_parquet(dataset, raw, home=tmp_path)
    assert ref_from_dict(ref.to_dict()) == ref
    assert (ref.rows_read, ref.n_rows, ref.data_source) == (N, N - 1, "real")
    assert ref.repairs == (Repair("blank or NaN in column x1", 1),)
    X, y = read_back(ref)
    np.testing.assert_array_equal(X, values[:-1].astype(np.float32))
    np.testing.assert_array_equal(y, labels[:-1])
    assert ref.label_counts == (int((y == 0).sum()), int((y == 1).sum()))
    assert web.asked == ["/swarm+behavior.zip"]


N_FRAMES = 320


@pytest.fixture(scope="module")
def swarm(tmp_path_factory):
    dataset = replace(get_dataset("swarm"), n_rows=N_FRAMES)
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    ref = to_parquet(dataset, raw, home=tmp_path_factory.mktemp("home"))
    return dataset, ref


def values_of(ref):
    return np.hstack([block for block, _ in stream_frames(ref)]).T.astype(np.float64)


def test_public_scales_are_those_of_the_registry(swarm):
    dataset, ref = swarm
    found = scales(ref, dataset, "public")
    assert Scales(**json.loads(json.dumps(found.to_dict()))) == found
    frames = load_frames(found)
    assert frames.X.shape == (N_FRAMES, 2401)
    assert frames.X.dtype == np.float32
    assert frames.X.flags.c_contiguous
    assert frames.column_names[::600] == ("x1", "x51", "x101", "x151", "intercept")
    assert (frames.X[:, -1] == 1).all()
    values = values_of(ref).reshape(N_FRAMES, 200, 12)
    for j, column in enumerate(dataset.columns):
        expected = np.clip((values[:, :, j] - column.center) / column.scale, -CLIP, CLIP)
        np.testing.assert_allclose(frames.X[:, j:-1:12], expected, atol=1e-5)
    assert np.abs(frames.X).max() == CLIP
    assert set(frames.y) == {0, 1}
    np.testing.assert_array_equal(frames.groups, np.arange(N_FRAMES) // 16)


def test_standardized_scales_are_those_of_the_data(swarm):
    dataset, ref = swarm
    found = scales(ref, dataset, "standardised")
    values = values_of(ref)
    np.testing.assert_allclose(found.center, values.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.scale, values.std(axis=0), rtol=1e-9)
    frames = load_frames(found)
    expected = np.clip((values - found.center) / np.array(found.scale), -CLIP, CLIP)
    np.testing.assert_allclose(frames.X[:, :-1], expected, atol=1e-4)


def test_a_public_scale_does_not_depend_on_the_data(swarm):
    dataset, ref = swarm
    other = replace(ref, path="elsewhere")
    assert scales(other, dataset, "public").center == scales(ref, dataset, "public").center


def small(n=40, simulated=True):
    return PreparedTable(
        X=np.ones((n, 1), dtype=np.float32),
        y=np.zeros(n),
        column_names=("intercept",),
        to_standard=None,
        groups=np.arange(n) // 4 if simulated else None,
    )


def test_simulations_stay_together():
    masks = draw_training_rows(small(), 20, np.random.default_rng(0).spawn(200), whole_groups=True)
    together = masks.reshape(10, 4, 200)
    assert (together == together[:, :1]).all()
    assert (masks.sum(axis=0) == 20).all()
    assert together[:, 0].mean(axis=1).min() > 0.3


def test_a_simulation_depends_on_the_seed_and_its_number_alone():
    def frames(n, seed):
        return np.concatenate([part for part, _ in simulate(n * FRAMES, seed)])

    many = frames(5, 1)
    np.testing.assert_array_equal(many[: 2 * FRAMES], frames(2, 1))
    assert not np.array_equal(many[: 2 * FRAMES], frames(2, 2))
