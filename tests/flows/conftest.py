"""Shared by the tests of the flows."""

import contextlib
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small_project import Project

with contextlib.suppress(ImportError):
    # Prefect closes every log handler when it sets its own up. absl's, which comes with dp-accounting, would
    # then close the stream it found at its import, and that is pytest's.
    from absl import logging as absl_logging

    absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("undisturbed"))
    project.run()
    return project


@pytest.fixture(scope="session")
def long(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("long"))
    began = time.monotonic()
    project.dpcost("run", project.study, "--profile", "paper", "--out", project.out)
    return project, time.monotonic() - began
