"""The swarm files: the official zip through a web server, every way to be wrong, and what is stored."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from data.datasets import get_dataset
from data.errors import CorruptSource
from data.fetch import frames
from data.fetch.frames import ROW_GROUP
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile, fetch
from data.prepare.frame_features import stream_frames
from data.store.references import Repair, ref_from_dict

SENTINEL = "123456.789"
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


def small(name="swarm", n=N, n_boids=200):
    return replace(get_dataset(name), n_rows=n, n_boids=n_boids)


def stored(dataset, payload, home, layout="uci_zip"):
    file = home / "raw.bin"
    home.mkdir(exist_ok=True)
    file.write_bytes(payload)
    raw = RawFile(dataset.name, str(file), "ab" * 32, "", layout, "mirror")
    return to_parquet(dataset, raw, home=home)


def read_back(ref):
    blocks = list(stream_frames(ref))
    return np.hstack([block for block, _ in blocks]).T, np.concatenate([labels for _, labels in blocks])


def test_the_official_zip_through_a_web_server(tmp_path, web):
    dataset = small(n_boids=3)
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


def test_what_the_parquet_file_says_of_itself(tmp_path):
    dataset = small(n_boids=2, n=ROW_GROUP + 10)
    values, labels = made(ROW_GROUP + 10, n_boids=2)
    ref = stored(dataset, zipped({"Flocking": "\n".join(lines_of(dataset, values, labels))}), tmp_path)
    file = pq.ParquetFile(ref.path)
    assert file.schema_arrow.names == [*dataset.frame_columns, "label"]
    assert {str(kind) for kind in file.schema_arrow.types} == {"float", "int8"}
    said = file.metadata.metadata
    assert said[b"dpcost.table_sha256"].decode() == ref.table_sha256
    assert said[b"dpcost.repairs"] == json.dumps([vars(Repair("blank or NaN in column x1", 1))]).encode()
    assert [file.metadata.row_group(i).num_rows for i in range(2)] == [ROW_GROUP, 9]


def test_pieces_of_any_size_give_the_same_bytes(tmp_path, monkeypatch):
    dataset = small(n_boids=2)
    payload = zipped({"Flocking": "\n".join(lines_of(dataset, *made(N, n_boids=2))) + "\n"})
    whole = stored(dataset, payload, tmp_path / "a")
    monkeypatch.setattr(frames, "PIECE_BYTES", 300)
    assert stored(dataset, payload, tmp_path / "b").sha256 == whole.sha256


def edited(row, column, text):
    def edit(lines):
        fields = lines[row].split(",")
        fields[column] = text
        return [*lines[:row], ",".join(fields), *lines[row + 1 :]]

    return edit


def both(first, second):
    return lambda lines: second(first(lines))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edited(5, 13, f"x{SENTINEL}"), "row 5, column 'y2' holds text instead of a number"),
        (lambda lines: [*lines[:5], lines[5] + f",{SENTINEL}", *lines[6:]], "row 5 has 26 fields, 25 are"),
        (lambda lines: [line.rsplit(",", 1)[0] for line in lines], "another layout: 24 columns, 25 are exp"),
        (edited(0, 3, "speed"), "another layout: column 4 is not headed 'yVel1'"),
        (lambda lines: lines[1:], "another layout: column 1 is not headed 'x1'"),
        (lambda lines: lines[:1], "has no rows"),
        (lambda lines: lines[:-5], "has 95 rows, 100 were published"),
        (edited(7, 24, "2"), "label 'Class' must be 0 or 1, it is not in 1 rows"),
        (edited(7, 0, SENTINEL), "x outside its public bounds in 1 entries"),
        (edited(7, 23, "-1"), "nS outside its public bounds in 1 entries"),
        (both(edited(7, 1, ""), edited(8, 1, "NaN")), r"3 of 100 rows are unusable \(blank .* y1: 2, .* x1"),
        (both(edited(7, 1, "inf"), edited(8, 1, "-inf")), r"unusable \(infinity in column y1: 2, blank"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path, edit, message):
    dataset = small(n_boids=2)
    lines = edit(lines_of(dataset, *made(N, n_boids=2)))
    with pytest.raises(CorruptSource, match=message) as caught:
        stored(dataset, zipped({"Flocking": "\n".join(lines)}), tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    assert SENTINEL not in text
    assert not list(tmp_path.rglob("*.parquet*"))


def test_text_far_down_a_file_is_found_by_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "PIECE_BYTES", 1 << 13)
    dataset = small(n_boids=2, n=3_000)
    lines = edited(2_000, 11, SENTINEL + "?")(lines_of(dataset, *made(3_000, n_boids=2)))
    with pytest.raises(CorruptSource, match="row 2,000, column 'nS1'") as caught:
        stored(dataset, zipped({"Flocking": "\n".join(lines)}), tmp_path)
    assert SENTINEL not in str(caught.value)


def test_damaged_and_foreign_archives(tmp_path, web):
    dataset = small(n_boids=2)
    whole = zipped({"Flocking": "\n".join(lines_of(dataset, *made(N, n_boids=2)))})
    half = whole[: len(whole) // 2]
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for payload in (half, bytes(flipped), b"PK\x03\x04", b"no zip at all"):
        with pytest.raises(CorruptSource, match="damaged archive"):
            stored(dataset, payload, tmp_path)
    with pytest.raises(CorruptSource, match=r"no file Flocking\.csv"):
        stored(dataset, zipped({"Aligned": "x"}), tmp_path)


def test_a_stand_in_of_fewer_frames_is_the_beginning_of_one_of_more(tmp_path):
    dataset = small(n=64)
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    whole, part = (to_parquet(dataset, raw, home=tmp_path, stand_in_rows=rows) for rows in (None, 40))
    assert (whole.n_rows, part.n_rows, part.rows_read) == (64, 40, 40)
    assert (whole.data_source, whole.frames_per_simulation, whole.reasons) == ("stand-in", 16, ("offline",))
    assert pq.read_metadata(whole.path).metadata[b"dpcost.data_source"] == b"stand-in"
    np.testing.assert_array_equal(read_back(whole)[0][:40], read_back(part)[0])
    again = to_parquet(dataset, raw, home=tmp_path / "again")
    assert (again.sha256, Path(again.path).name) == (whole.sha256, Path(whole.path).name)


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("data.fetch.frames.PIECE_BYTES", 100)
    with pytest.raises(CorruptSource, match=r"a\.csv .*100 bytes"):
        list(frames.read_csv(io.BytesIO(b"x\n" + b"1" * 2000), ("x",), file="a.csv"))
