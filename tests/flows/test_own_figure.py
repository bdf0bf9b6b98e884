"""Charts of studies of an analyst's own table are named like their reports."""

import json
import shlex

from flows.studies.results import file_of_report


def test_a_study_of_ones_own_is_found_by_the_name_of_its_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert file_of_report("mine", tmp_path) == "mine"
    file = tmp_path / "elsewhere" / "mine.toml"
    (tmp_path / "mine").mkdir()
    file.parent.mkdir()
    file.write_text("")
    command = shlex.join(["dpcost", "run", str(file), "--seed", "1"])
    (tmp_path / "mine" / "manifest.json").write_text(json.dumps({"rerun_commands": [command]}))
    assert file_of_report("mine", tmp_path) == str(file)
    assert file_of_report("housing", tmp_path) == "housing"
    (tmp_path / "other.toml").write_text("")
    assert file_of_report("other", tmp_path) == "other.toml"
