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


@pytest.fixture(scope="session")
def published():
    tgz = (EMBEDDED / "housing" / "cal_housing.tgz").read_bytes()
    return SimpleNamespace(dataset=get_dataset("housing"), tgz=tgz, n_capped=965)


@pytest.fixture(scope="session")
def small_table():
    return housing.stand_in(300, np.random.default_rng(1))


@pytest.fixture
def small(small_table):
    def build(tamper=list):
        rows = small_table[list(housing.CAL_HOUSING_COLUMNS)].to_numpy(dtype=float)
        lines = tamper([",".join(f"{value:f}" for value in row) for row in rows])
        text, packed = "".join(line + "\n" for line in lines).encode(), io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            info = tarfile.TarInfo("CaliforniaHousing/cal_housing.data")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        sha256 = hashlib.sha256(packed.getvalue()).hexdigest()
        source = Source("housing/cal_housing.tgz", "http://127.0.0.1:9/data", "cal_housing_tgz", sha256)
        dataset = replace(get_dataset("housing"), source=source, n_rows=len(lines), table_sha256="")
        return dataset, packed.getvalue()

    return build
