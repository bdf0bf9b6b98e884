"""Comparing runs: of one study, of a copy of its file, and of different studies."""

import json

import pytest
from small_project import sentence

from tests.tasks.blocks import results_table


@pytest.fixture
def run(tmp_path):
    """A function that writes a run's table and manifest below a folder, and returns the folder."""

    def write(name, study, digest, cell="ols:public:n=100"):
        folder = tmp_path / name
        folder.mkdir()
        results_table([1.0, 1.1], cell=cell).assign(study=study).to_parquet(folder / "results.parquet")
        (folder / "manifest.json").write_text(json.dumps({"study": {"name": study, "sha256": digest}}))
        return folder

    return write


@pytest.mark.parametrize("cell", ["ols:public:n=100", "ols:other:n=9"])
def test_runs_of_different_studies_are_refused_by_their_names(run, command_line, tmp_path, cell):
    runs = run("one", "housing", "a"), run("other", "st-plain", "b", cell)
    for option in ([], ["--json"], ["--page", tmp_path / "page.html"]):
        said = sentence(command_line("compare", *runs, *option))
        assert [part for part in ("'housing'", "'st-plain'", str(runs[1])) if part not in said] == []
    assert not (tmp_path / "page.html").exists()
