"""Shared fixtures: the mirrored data, and a home folder of each test's own."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
os.environ.setdefault("DPCOST_DATA_MIRROR", str((PROJECT / ".." / "shared" / "data").resolve()))
os.environ["DPCOST_DATA_MIRROR"] = str((PROJECT / os.environ["DPCOST_DATA_MIRROR"]).resolve())
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A fresh ``DPCOST_HOME``."""
    folder = tmp_path / "home"
    monkeypatch.setenv("DPCOST_HOME", str(folder))
    return folder
