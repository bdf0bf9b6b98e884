import pytest

from flows.server.deployments import deployments
from flows.studies import find_study
from tasks.errors import SpecError

OTHERS = ["ingest", "scorecard", "report", "rerun"]


def test_every_study_and_whatever_else_can_be_run_is_deployed_with_its_tags():
    found = {each.name: each for each in deployments("home-1")}
    assert sorted(found) == sorted([*find_study.study_names(), *OTHERS])
    assert found["housing"].tags == ["home-1", "housing", "standard"]
    assert all(each.schedules and each.description for name, each in found.items() if name not in OTHERS)


def test_a_study_that_nobody_listed_runs_on_mondays_and_an_empty_line_is_no_schedule(tmp_path):
    (tmp_path / "schedules.toml").write_text('housing = ""\nfair = "0 3 1 * *"\n')
    found = {each.name: each for each in deployments("home-1", tmp_path / "schedules.toml")}
    crons = {name: [each.schedule.cron for each in found[name].schedules or []] for name in found}
    assert (crons["housing"], crons["fair"], crons["snp"]) == ([], ["0 3 1 * *"], ["0 6 * * 1"])


@pytest.mark.parametrize("line", ['hosing = "0 3 * * 1"', 'housing = "never"'])
def test_a_wrong_line_is_refused_with_the_files_name(tmp_path, line):
    (tmp_path / "schedules.toml").write_text(line)
    with pytest.raises(SpecError, match=r"schedules\.toml.*hou?sing"):
        deployments("home-1", tmp_path / "schedules.toml")


@pytest.mark.parametrize("text", ["housing = 3", 'housing = ["0 3 1 * *"]', "housing = ", "[housing]\na = 1"])
def test_schedules_of_another_kind_are_one_sentence_that_names_the_file(tmp_path, text):
    (tmp_path / "schedules.toml").write_text(text)
    with pytest.raises(SpecError, match=r"schedules\.toml"):
        deployments("home-1", tmp_path / "schedules.toml")
