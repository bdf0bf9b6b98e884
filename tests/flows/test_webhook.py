import json
from types import SimpleNamespace
from uuid import uuid4

import pytest

from flows.record import webhook
from flows.record.webhook import tell_drift, tell_failure

FAILED = SimpleNamespace(name="Failed", message="the value 42.5 of age")


@pytest.fixture
def told(receiver, monkeypatch):
    """Return what was sent to the webhook that the environment names."""
    monkeypatch.setenv(webhook.VARIABLE, receiver.address)
    return receiver


def run(**changed):
    given = {"id": uuid4(), "name": "housing · standard · 2026-11-20", "auto_scheduled": True, "run_count": 1}
    return SimpleNamespace(**given | changed)


def test_a_scheduled_run_that_fails_is_told_without_its_message(told):
    failed = run()
    tell_failure(None, failed, FAILED)
    (body,) = told.bodies
    assert body["event"] == "failed"
    assert body["text"] == "housing · standard · 2026-11-20: the scheduled run failed"
    assert body["run"]["id"] == str(failed.id)
    assert "42.5" not in json.dumps(body)


def test_a_run_that_somebody_started_is_not_told(told):
    tell_failure(None, run(auto_scheduled=False), FAILED)
    assert told.bodies == []


def test_drift_is_told_with_the_cells_but_not_with_their_values(told):
    tell_drift("housing", [f"ols:public:n={n}" for n in range(100)], run())
    (body,) = told.bodies
    assert (body["event"], body["study"], body["n_cells"], len(body["cells"])) == (
        "drift",
        "housing",
        100,
        20,
    )
    assert body["text"] == "housing: 100 cells differ from the last run by more than the error bars"


@pytest.mark.parametrize("status", [404, 500])
def test_a_receiver_that_refuses_stops_nothing_and_its_address_stays_secret(told, status, capsys):
    told.status = status
    tell_failure(None, run(), FAILED)
    assert capsys.readouterr().err == f"note: the webhook was not told: status {status}\n"


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/token", "file:///etc/passwd", "token", "https://[token"]
)
def test_an_address_that_cannot_be_reached_stops_nothing_and_stays_secret(address, monkeypatch, capsys):
    monkeypatch.setenv(webhook.VARIABLE, address)
    tell_failure(None, run(), FAILED)
    said = capsys.readouterr().err
    assert said.startswith("note: the webhook was not told")
    assert "token" not in said
