"""Published-looking archives; nothing here uses the network."""

import hashlib
import io
import tarfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from data.dataset import Source
from data.datasets import get_dataset, housing
from data.fetch.raw import EMBEDDED, RawFile
from tests.builders import made_up


def rows_of(table, columns, number, separator):
    values = table[list(columns)].to_numpy(dtype=float)
    return "".join(separator.join(number % value for value in row) + "\n" for row in values)


def make_tgz(text, member="CaliforniaHousing/cal_housing.data"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def with_tgz(dataset, payload, url="http://127.0.0.1:9/data"):
    """Return the dataset as if `payload` were its only published file."""
    source = Source("housing/cal_housing.tgz", url, "cal_housing_tgz", hashlib.sha256(payload).hexdigest())
    return replace(dataset, source=source)


@pytest.fixture(scope="session")
def published():
    tgz = (EMBEDDED / "housing" / "cal_housing.tgz").read_bytes()
    return SimpleNamespace(dataset=get_dataset("housing"), tgz=tgz, n_capped=965)


def small_housing(change=list):
    """Return a dataset of 300 rows in the layout of the published one, and its file, with changed lines."""
    table = made_up(get_dataset("housing"), 300, np.random.default_rng(1))
    lines = change(rows_of(table, housing.DATASET.column_names, "%f", ",").splitlines())
    payload = make_tgz("".join(line + "\n" for line in lines))
    return replace(with_tgz(get_dataset("housing"), payload), n_rows=len(lines), table_sha256=""), payload


def raw_of(folder, dataset, payload, layout=""):
    path, source = folder / "raw.bin", dataset.source
    path.write_bytes(payload)
    sha256 = hashlib.sha256(payload).hexdigest()
    return RawFile(dataset.name, str(path), sha256, source.url, layout or source.layout, "mirror")


def with_cell(row, column, text):
    def change(lines):
        cells = lines[row].split(",")
        line = ",".join([*cells[:column], text, *cells[column + 1 :]])
        return [*lines[:row], line, *lines[row + 1 :]]

    return change
