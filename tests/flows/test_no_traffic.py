"""Nothing leaves the machine except requests for the files of a run."""

from pathlib import Path

import pytest
from small_project import Project, Standing

from tests.builders import PROJECT, release_file, release_words

TRAP = Path(__file__).parent / "trap"
TOLD_NOT_TO = ("DO_NOT_TRACK", "PREFECT_SERVER_ANALYTICS_ENABLED", "CI", "GITHUB_ACTIONS")


@pytest.fixture
def trapped(tmp_path):
    project = Project(tmp_path)
    for name in TOLD_NOT_TO:
        project.environment.pop(name, None)
    notes = tmp_path / "notes"
    notes.touch()
    project.environment |= {"PYTHONPATH": f"{TRAP}:{PROJECT}", "TRAP": str(notes), "HOME": str(tmp_path)}
    return project, notes


def test_the_trap_sees_a_look_up_and_a_connection(trapped):
    project, notes = trapped
    calls = ["socket.getaddrinfo('example.org', 80)"]
    calls += [f"socket.create_connection({at}, timeout=1)" for at in (("192.0.2.1", 80), ("127.0.0.1", 1))]
    suppressed = [f"with contextlib.suppress(OSError): {call}" for call in calls]
    code = "\n".join(["import contextlib, socket", *suppressed])
    project.start(code=code).communicate(timeout=60)
    events = [line.split()[:2] for line in notes.read_text().splitlines()]
    assert ["socket.getaddrinfo", "example.org"] in events
    assert {host for _, host in events} == {"example.org", "192.0.2.1"}


def test_a_release_and_an_audit_ask_nobody(trapped, tmp_path):
    project, notes = trapped
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(str(20 + i % 60) for i in range(500)))
    config = release_file(tmp_path, "people", ["age"], bounds="value_bound = 100.0")
    project.dpcost("audit", "dp_mean", "--trials", 1000)
    project.dpcost("ledger", "open", "people", "--epsilon", 1, "--delta", 1e-6)
    said, _ = project.dpcost(*release_words("dp_mean", tmp_path / "people.csv", config, 0.5, 1e-7), "--yes")
    assert "spent of the budget" in said
    assert notes.read_text() == ""


@pytest.mark.server
def test_only_what_does_not_ship_with_the_package_is_asked_for(trapped, tmp_path):
    project, notes = trapped
    nowhere = str(tmp_path / "nowhere")
    _, err = project.run(DPCOST_DATA_MIRROR=nowhere)
    assert notes.read_text() == ""
    assert "telemetry" not in err
    project.dpcost("ingest", "snp_gse106818", status=2, DPCOST_DATA_MIRROR=nowhere)
    assert {line.split()[1] for line in notes.read_text().splitlines()} == {"ftp.ncbi.nlm.nih.gov"}


@pytest.mark.server
def test_the_standing_server_asks_nobody(trapped):
    project, notes = trapped
    with Standing(PROJECT, project.environment) as server:
        server.wait_until_up()
        server.stop()
    assert "Ctrl-C stops everything" in server.said
    assert notes.read_text() == ""
