import shutil

import pytest

from tasks.cache import keys as digest
from tasks.cache.keys import COMPUTING, ROOT, cache_key, code_digest, is_key, page_key


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a copy of what results depend on; its digests are computed anew."""
    for folder in ("dpalgos", "tasks", "data", "reports"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "out", "*.so")
        )
    monkeypatch.setattr(digest, "ROOT", tmp_path)
    code_digest.cache_clear()
    yield tmp_path
    code_digest.cache_clear()


def key_after(edited):
    code_digest.cache_clear()
    return cache_key("block", {"n": 100}, "sha")


@pytest.mark.parametrize(
    "file",
    [
        "dpalgos/central/dp_linear_regression.py",
        "data/table_design.py",
        "data/simulations/means.py",
        "tasks/work_units.py",
        "tasks/run/block.py",
        "tasks/problems/subsamples.py",
    ],
)
def test_an_edit_of_what_a_number_depends_on_changes_the_key(project, file):
    before = key_after(None)
    path = project / file
    path.write_text(path.read_text() + "\n# edited\n")
    assert key_after(file) != before


def test_a_new_or_renamed_file_changes_the_key(project):
    before = key_after(None)
    (project / "dpalgos" / "central" / "another.py").write_text("")
    added = key_after("another")
    (project / "dpalgos" / "central" / "another.py").rename(project / "dpalgos" / "central" / "named.py")
    assert len({before, added, key_after("named")}) == 3


def test_an_edit_of_the_reports_leaves_results_alone(project):
    before, page = key_after(None), page_key("page", 1)
    path = project / "reports" / "templates" / "style.css"
    path.write_text(path.read_text() + "\n")
    (project / "dpalgos" / "__pycache__").mkdir()
    (project / "dpalgos" / "__pycache__" / "x.py").write_text("")
    assert key_after("style") == before
    assert page_key("page", 1) != page


def test_the_copied_project_has_the_same_digest(project):
    copied = code_digest(COMPUTING)
    code_digest.cache_clear()
    digest.ROOT = ROOT
    assert code_digest(COMPUTING) == copied


def test_a_key_holds_every_input():
    keys = [
        cache_key("block", {"n": 100}, "sha"),
        cache_key("limit", {"n": 100}, "sha"),
        cache_key("block", {"n": 101}, "sha"),
        cache_key("block", {"n": 100}, "another"),
        page_key("block", {"n": 100}, "sha"),
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key("block", {"a": 1, "b": 2}) == cache_key("block", {"b": 2, "a": 1})
    assert all(is_key(key) for key in keys)
    assert not is_key("7156a137c9b244ab9cf6b872bcc3edb0")


def test_a_library_that_changes_numbers_changes_the_key(monkeypatch):
    before = cache_key("block", 1)
    monkeypatch.setattr(digest, "version", lambda library: "0")
    assert cache_key("block", 1) != before
