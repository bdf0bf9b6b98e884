"""Frames as a classification problem: scales, the intercept, random halves."""

import json
from dataclasses import replace

import numpy as np
import pytest

from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile
from data.prepare.frame_features import CLIP, Scales, load_frames, scales, stream_frames
from data.prepare.table_design import PreparedTable, draw_training_rows

N = 320


@pytest.fixture(scope="module")
def swarm(tmp_path_factory):
    dataset = replace(get_dataset("swarm"), n_rows=N)
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
    assert frames.X.shape == (N, 2401)
    assert frames.X.dtype == np.float32
    assert frames.X.flags.c_contiguous
    assert frames.column_names[::600] == ("x1", "x51", "x101", "x151", "intercept")
    assert (frames.X[:, -1] == 1).all()
    values = values_of(ref).reshape(N, 200, 12)
    for j, column in enumerate(dataset.columns):
        expected = np.clip((values[:, :, j] - column.center) / column.scale, -CLIP, CLIP)
        np.testing.assert_allclose(frames.X[:, j:-1:12], expected, atol=1e-5)
    assert np.abs(frames.X).max() == CLIP
    assert set(frames.y) == {0, 1}
    np.testing.assert_array_equal(frames.groups, np.arange(N) // 16)


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
