import numpy as np
import pandas as pd
import pytest

from flows.serve import deployments
from flows.studies import find_study
from tasks.errors import SpecError
from tests.tasks.analyst_tables import initialized

OTHERS = ["ingest", "scorecard", "report", "rerun"]


def cron(deployment):
    return [each.schedule.cron for each in deployment.schedules or []]


def test_every_study_and_whatever_else_can_be_run_is_deployed_with_its_tags_and_schedule():
    found = {each.name: each for each in deployments("home-1")}
    assert sorted(found) == sorted([*find_study.study_names(), *OTHERS])
    assert found["housing"].tags == ["home-1", "housing", "standard"]
    assert cron(found["housing"]) == ["0 3 * * 1"]
    assert all(cron(each) for name, each in found.items() if name not in (*OTHERS, "league"))
    assert all(each.description for name, each in found.items() if name not in OTHERS)


@pytest.mark.parametrize(("line", "expected"), [("", []), ('schedule = "0 4 * * *"\n', ["0 4 * * *"])])
def test_a_study_of_ones_own_table_is_deployed_by_its_file_with_its_schedule(tmp_path, line, expected):
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    file = initialized(tmp_path, table, response="cost", name="costs")
    file.write_text(line + file.read_text())
    found = {each.name: each for each in deployments("home-1", [file])}
    assert cron(found["costs"]) == expected
    assert found["costs"].parameters["study"] == str(file)


@pytest.mark.parametrize("schedule", ["3", '"never"', '["0 3 1 * *"]', '"0 3 * *"', '"99 3 * * 1"'])
def test_a_wrong_schedule_is_refused_with_the_name_of_the_file(tmp_path, schedule):
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    file = initialized(tmp_path, table, response="cost", name="costs")
    file.write_text(f"schedule = {schedule}\n" + file.read_text())
    with pytest.raises(SpecError, match=r"costs\.toml.*schedule"):
        deployments("home-1", [file])
