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
from data.fetch.raw import EMBEDDED
from data.fetch.tables import made_up


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


@pytest.fixture(scope="session")
def small_table():
    return made_up(get_dataset("housing"), 300, np.random.default_rng(1))


@pytest.fixture
def small(small_table):
    def build(tamper=list):
        lines = rows_of(small_table, housing.CAL_HOUSING_COLUMNS, "%f", ",").splitlines()
        tampered = tamper(lines)
        payload = make_tgz("".join(line + "\n" for line in tampered))
        dataset = with_tgz(get_dataset("housing"), payload)
        return replace(dataset, n_rows=len(tampered), table_sha256=""), payload

    return build
