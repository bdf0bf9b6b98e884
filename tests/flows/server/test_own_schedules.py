"""Schedules of studies of an analyst's own table."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from flows.server.deployments import deployments
from flows.studies import parameters, schedules
from flows.studies.parameters import check_studies
from tasks.errors import SpecError
from tests.tasks.analyst_tables import initialized


def test_a_study_of_ones_own_table_is_deployed_by_its_file_and_no_other_file_is_taken(tmp_path, monkeypatch):
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    file = initialized(tmp_path, table, response="cost", name="costs")
    listing = tmp_path / "schedules.toml"
    listing.write_text('"costs.toml" = "0 4 * * *"\n')
    found = {each.name: each for each in deployments("home-1", listing)}
    assert [each.schedule.cron for each in found["costs"].schedules] == ["0 4 * * *"]
    assert found["costs"].parameters["study"] == str(file)
    monkeypatch.setattr(parameters, "from_server", lambda: True)
    monkeypatch.setattr(parameters.runtime, "deployment", SimpleNamespace(name="costs"))
    monkeypatch.setattr(parameters, "own_studies", lambda: schedules.own_studies(listing))
    check_studies(str(file))
    with pytest.raises(SpecError, match="study must"):
        check_studies(str(tmp_path / "others.toml"))
    listing.write_text('"other.toml" = "0 4 * * *"\n')
    with pytest.raises(SpecError, match=r"other\.toml"):
        deployments("home-1", listing)
