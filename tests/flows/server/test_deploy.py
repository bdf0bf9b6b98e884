import re

import pytest
import yaml

from flows.server import deploy
from flows.studies import find_study
from tasks.faults import SpecError

OTHERS = ["ingest", "report", "rerun", "scorecard"]


@pytest.fixture
def listing(tmp_path, monkeypatch):
    """Return a function that writes another ``prefect.yaml``."""

    def write(*listed):
        (tmp_path / "prefect.yaml").write_text(yaml.safe_dump({"deployments": list(listed)}))
        monkeypatch.setattr(deploy, "PROJECT", tmp_path)

    return write


def study(name="housing", **changed):
    return {"name": name, "entrypoint": deploy.STUDY, "parameters": {"study": name}, **changed}


def test_every_study_and_whatever_else_can_be_run_is_deployed():
    names = [each["name"] for each in deploy.deployments()]
    assert sorted(names) == sorted([*find_study.study_names(), *OTHERS])


def test_a_study_that_nobody_listed_is_scheduled(listing):
    listing(study())
    found = {each["name"]: each for each in deploy.deployments()}
    assert set(found) == set(find_study.study_names())
    assert found["snp"]["schedules"] == [{"cron": deploy.UNLISTED_AT, "timezone": "UTC"}]
    assert "schedules" not in found["housing"]


def test_a_listed_study_that_is_gone_is_told(listing):
    listing(study("hosing"))
    with pytest.raises(SpecError, match="lists the study 'hosing', which flows/studies does not have"):
        deploy.deployments()


def test_every_deployment_can_be_put_on_a_server_and_its_form_explains_and_limits_every_parameter():
    for each in deploy.deployments():
        flow = deploy.load_flow(each["entrypoint"])
        sent = deploy.described(each, flow)
        assert sent["description"], each["name"]
        assert not re.search(r"[?!]\.", sent["description"]), each["name"]
        assert sent["enforce_parameter_schema"]
        form = sent["parameter_openapi_schema"]
        assert form["additionalProperties"] is False
        unexplained = [name for name, about in form["properties"].items() if not about.get("description")]
        assert unexplained == [], each["name"]
        if "study" in form["properties"]:
            alone = each["entrypoint"] == deploy.STUDY
            assert form["properties"]["study"]["enum"] == (
                [each["name"]] if alone else find_study.study_names()
            )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schedules": [{"cron": "never"}]}, "the schedule of deployment housing"),
        ({"schedules": [{"cron": "0 3 * * 1", "timezone": "Mars"}]}, "the schedule of deployment housing"),
        ({"parameters": {"study": "housing", "profile": "smke"}}, "profile"),
        ({"parameters": {"study": "housing", "colour": 1}}, "colour"),
        ({"parameters": {"study": "housing", "reps": 0}}, "reps"),
    ],
)
def test_a_wrong_entry_is_refused_in_words(changed, said):
    with pytest.raises(SpecError, match=f"deployment housing.*{said}|{said}"):
        deploy.described(study(**changed), deploy.load_flow(deploy.STUDY))
