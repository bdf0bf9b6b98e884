"""The swarm files: the official zip through a web server, every way to be wrong, and what is stored."""

import io
import zipfile
from dataclasses import replace

import numpy as np

from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw import fetch
from data.prepare.frame_features import stream_frames
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
