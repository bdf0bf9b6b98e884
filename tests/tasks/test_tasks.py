"""What the tasks write and publish, without an orchestrator; the swarm study's report on a small stand-in."""

import json
import threading
import uuid
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from prefect.exceptions import Pause
from prefect.filesystems import LocalFileSystem
from prefect.results import ResultStore
from prefect.states import Cancelled, Cancelling, Completed, Crashed, Failed, Paused, Running, Suspended
from prefect.transactions import transaction

import flows.study
from data.datasets import get_dataset
from data.errors import Unreachable
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile
from data.prepare.frame_features import scales
from data.prepare.table_design import design_bytes
from data.store.references import DatasetRef
from dpalgos.plugins import FILES
from flows import progress
from flows.studies.find_study import find_study
from tasks import steps
from tasks.cache import Written
from tasks.errors import Fault, guarded
from tasks.report.manifest import build_manifest, released_events, sealed
from tasks.report.write import write_index, write_report
from tasks.run.compute import (
    audit_key,
    stored_audit,
    stored_audits,
    write_audit,
    write_block,
    write_design,
    write_exhibits,
)
from tasks.run.datasets import bring, fetch, parquet
from tasks.run_options import RunOptions
from tasks.steps import RunCancelled, audit, heed_person
from tests.flows.small_project import until
from tests.tasks.blocks import made_results, result_at, run_of


@pytest.fixture
def raw(home):
    return fetch("housing", offline=True)


def test_the_state_of_a_fetch_says_that_no_source_has_the_data(home, monkeypatch):
    monkeypatch.delenv("DPCOST_DATA_MIRROR", raising=False)
    state = flows.study.fetch.fn("snp_gse106818", offline=True)
    assert state.name == "Absent"
    assert "snp_gse106818" in state.message
    assert state.data.is_stand_in


def test_a_run_that_ends_early_says_how_many_blocks_are_stored(monkeypatch):
    states = [
        *(
            Completed(name=name, data=Mock(is_persisted=True))
            for name in ("Completed", "Cached", "Completed")
        ),
        Failed(data=Mock(is_persisted=True)),
    ]
    futures = [Mock(state=state) for state in states]
    monkeypatch.setattr("prefect.futures.as_completed", iter)
    progress.finished("small", futures, [1.0] * len(futures))
    assert progress.stored_blocks() == "3 of 4 blocks are stored"


def test_a_redirected_run_says_how_far_it_is_before_a_block_has_ended(monkeypatch, capsys):
    """A log stayed empty for minutes, because only ends of blocks wrote lines."""
    ended, future = threading.Event(), Mock(state=Completed(data=Mock(is_persisted=True)))
    future.wait = ended.wait
    monkeypatch.setattr("prefect.futures.as_completed", iter)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    waiting = threading.Thread(target=progress.finished, args=["small", [future], [1.0]], daemon=True)
    waiting.start()
    lines = list[str]()
    until(lambda: lines.append(capsys.readouterr().err) or "small: 0 of 1 block" in "".join(lines))
    ended.set()
    waiting.join()
    said = "".join(lines)
    assert said.count("0 of 1 block") == 1  # what says the same again comes a minute later


@pytest.fixture
def block():
    (first, *_) = find_study("housing").blocks("smoke", replicates=2, seed=1)
    return first


@pytest.fixture
def ready(raw, tmp_path):
    problem = find_study("housing").panel("public").problem
    return write_design(result_at(tmp_path / "design.npz"), problem, parquet(raw))


def test_collecting_keeps_the_order_of_the_parts(ready, block, tmp_path):
    first, *others = block.cells
    halves = [replace(block, cells=(first,)), replace(block, cells=tuple(others))]
    places = [result_at(tmp_path / f"{len(half.cells)}.parquet") for half in halves]
    parts = [write_block(*each, ready) for each in zip(places, halves, strict=True)]
    rows = pd.read_parquet(made_results(parts[::-1], tmp_path / "out").path)
    assert list(rows["cell"].unique()) == [cell.key for cell in (*others, first)]
    stored = [pd.read_parquet(part.path) for part in parts[::-1]]
    assert len(rows) == sum(map(len, stored))
    assert rows["value"].tolist() == [value for table in stored for value in table["value"]]


def test_a_table_shows_what_an_audit_found(ready, block, tmp_path, monkeypatch):
    finding = Mock(epsilon_lower_bound=0.25, to_dict=lambda: {})
    monkeypatch.setattr("dpalgos.audit.lower_bound.audit_estimator", Mock(return_value=finding))
    cell = next(cell for cell in block.cells if cell.estimator == "adassp" and cell.calibration == "paper")
    found = write_audit(result_at(tmp_path / "audit.json", "tasks.run.compute"), cell, 3, 1000, 5)
    part = write_block(result_at(tmp_path / "block.parquet"), block, ready)
    rows = pd.read_parquet(made_results([part], tmp_path / "out", [found]).path)
    rows = rows.dropna(subset="audited_epsilon")
    assert set(rows["cell"]) == {cell.key}
    assert set(rows["audited_epsilon"]) == {0.25}


def test_a_manifest_names_no_place_of_this_machine(home, monkeypatch):
    monkeypatch.setattr("tasks.report.manifest.budget_split", lambda spec: {})
    asked, results = run_of("housing", profile="smoke"), Written(((str(home / "results.parquet"), "6"),))
    path = str(home / "store" / "parquet" / "x.parquet")
    table = DatasetRef("housing", path, "5", "", "", "", "store", "real", 1, 1)
    plain = build_manifest(find_study("housing"), asked, {"housing": table}, results)
    assert plain["data"][0]["path"] == "store/parquet/x.parquet"
    assert str(home) not in str(plain)
    assert plain["study"]["file"] == "flows/studies/housing.toml"
    run, rerun, report = plain["rerun_commands"]
    assert run == "dpcost run housing --profile smoke --reps 3 --seed 1"
    assert rerun.startswith("dpcost rerun housing --task run_block --cell ")
    assert ":n=20600" in rerun or ":n=100" in rerun  # a cell of this profile
    assert report == "dpcost report housing"
    own = run_of("a b/mine.toml", profile="smoke", out="my out")
    mine = build_manifest(find_study("housing"), own, {"housing": table}, results)
    assert mine["study"]["file"] == "mine.toml"
    monkeypatch.setenv(FILES, str(Path.cwd() / "my own.py"))
    with_plugin = build_manifest(find_study("housing"), own, {"housing": table}, results)["rerun_commands"]
    assert all(command.count("--with 'my own.py'") == 1 for command in with_plugin)
    monkeypatch.setenv(FILES, str(Path.cwd().parent / "elsewhere.py"))
    with_plugin = build_manifest(find_study("housing"), own, {"housing": table}, results)["rerun_commands"]
    assert all(command.count("--with elsewhere.py") == 1 for command in with_plugin)
    assert mine["rerun_commands"][2] == "dpcost report 'a b/mine.toml' --out 'my out'"


def test_an_index_that_tells_of_a_private_report_is_its_owners_alone(tmp_path):
    for study, mode in (("mine", 0o700), ("housing", 0o755)):
        (tmp_path / study).mkdir()
        (tmp_path / study).chmod(mode)
        (tmp_path / study / "manifest.json").write_bytes(sealed(MANIFEST))
    assert write_index(tmp_path).stat().st_mode & 0o077 == 0
    (tmp_path / "mine" / "manifest.json").unlink()
    (tmp_path / "usual").touch()
    assert write_index(tmp_path).stat().st_mode == (tmp_path / "usual").stat().st_mode


@guarded
def raising(error):
    raise error


@pytest.mark.parametrize("error", [ValueError("secret 42.5"), KeyError("secret"), OSError("bytes: secret")])
def test_any_other_leaves_without_its_message_and_its_cause(error):
    with pytest.raises(Fault) as left:
        raising(error)
    assert str(left.value).startswith(f"{type(error).__name__} in tests/tasks/test_tasks.py:")
    assert "raising" in str(left.value)
    assert left.value.__suppress_context__
    assert "secret" not in repr(left.value) + str(left.value.frames)


SNP, LOW_IQ = "snp_gse106818", "average and low iq"


def test_a_panel_without_its_data_does_not_run():
    spec = find_study("snp").model_copy(update={"panels": (find_study("snp").panel(LOW_IQ),)})
    missing = RawFile(SNP, "", "", "", "", "stand-in", ("no address answered",))
    options = RunOptions(offline=True)
    brought = {SNP: bring(spec, SNP, options, fetch=lambda *_: missing, parquet=None)}
    left, tables = spec.on(brought)
    assert (tables, left.panels) == ({}, ())
    assert list(left.not_run) == [LOW_IQ]
    assert "no address answered" in left.not_run[LOW_IQ]
    with pytest.raises(Unreachable, match="no address answered"):
        spec.model_copy(update={"headline": spec.headline.model_copy(update={"panel": LOW_IQ})}).on(brought)


SMALL = 192


def exhibits(folder, block, ref):
    shown = write_exhibits(result_at(folder / "shown.json"), block, ref, None)
    return json.loads(shown.path.read_bytes())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swarm")
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    ref = to_parquet(get_dataset("swarm"), raw, home=folder, stand_in_rows=SMALL)
    spec = find_study("swarm")
    blocks = spec.blocks("standard", replicates=2, seed=1, data_sources={"swarm": "stand-in"})
    whole = next(block for block in blocks if block.replicates.panel == "public")
    wanted = {"iht_glm": "none", "screened_sparse_glm": "tight", "dp_sparse_glm": "paper", "zero": "none"}
    ours = [each for each in whole.cells if wanted.get(each.estimator) == each.calibration]
    cells = [replace(each, n=SMALL // 2) for each in ours if each.s == 100 and each.epsilon in (None, 0.5)]
    block = replace(whole, replicates=replace(whole.replicates, n=SMALL // 2), cells=tuple(cells))
    content = design_bytes(scales(ref, get_dataset("swarm"), "public"))
    design = result_at(folder / "design.npz").write(content)
    part = write_block(result_at(folder / "1.parquet"), block, design)
    results = made_results([part], folder / "out")
    manifest = build_manifest(spec, run_of("swarm", profile="smoke", reps=2), {"swarm": ref}, results)
    write_report(spec, results.path, manifest, json.dumps(exhibits(folder, block, ref)).encode())
    return folder / "out", ref, part, block


def test_every_output_says_that_the_flock_is_simulated(made):
    out, *_ = made
    assert set(pd.read_parquet(out / "results.parquet")["data_source"]) == {"stand-in"}
    for name in ("report.md", "report.html"):
        assert "STAND-IN DATA: simulated, not the real dataset" in (out / name).read_text()
    figures = list((out / "figures").glob("*.svg"))
    assert "main.svg" in {figure.name for figure in figures}
    for figure in figures:
        assert "stand-in data" in figure.read_text().lower(), figure.name


WHEN = "2026-11-01T00:00:00+00:00"
ABOUT = {"title": "Houses", "headline": "Privacy costs.", "panel": "", "errors": None}
MANIFEST = {"finished": WHEN, "profile": "standard", "replicates": 30, "page": ABOUT}


@pytest.mark.parametrize("state", [Paused(), Suspended()])
def test_a_paused_run_of_a_command_ends_since_no_server_can_start_it_again(monkeypatch, state):
    """It waited in the command, which kept the lock of the home."""
    run, states = str(uuid.uuid4()), [state]
    monkeypatch.setattr(steps, "runtime", Mock(**{"flow_run.id": run, "deployment.id": None}))
    monkeypatch.setattr(steps, "_state_of_run", lambda run, second: states[-1])
    client = Mock(set_flow_run_state=lambda run, stated, force: states.append(stated))
    monkeypatch.setattr(steps, "get_client", lambda **_: nullcontext(client))
    for _ in range(2):  # of the second block, the server has the first one's state
        with pytest.raises(RunCancelled, match="paused"):
            heed_person()
    assert states[-1].is_cancelling()


def test_a_suspended_run_of_a_deployment_is_left(monkeypatch):
    monkeypatch.setattr(steps, "runtime", Mock(**{"flow_run.id": "run", "deployment.id": "costs"}))
    monkeypatch.setattr(steps, "_state_of_run", lambda run, second: Suspended())
    with pytest.raises(Pause):
        heed_person()


def test_a_paused_run_of_a_deployment_gives_up_its_place_and_can_be_resumed(monkeypatch):
    """It kept the only place, and the lock of the home, while all other runs waited."""
    run, kept, until_then = uuid.uuid4(), [], datetime(2100, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(steps, "runtime", Mock(**{"flow_run.id": str(run), "deployment.id": "costs"}))
    paused = Paused(pause_expiration_time=until_then, pause_key="a person")
    monkeypatch.setattr(steps, "_state_of_run", lambda run, second: paused)
    client = Mock(set_flow_run_state=lambda *stated, force: kept.append((*stated, force)))
    monkeypatch.setattr(steps, "get_client", lambda **_: nullcontext(client))
    with pytest.raises(Pause) as left:
        heed_person()
    ((of_run, state, is_forced),) = kept
    assert (of_run, is_forced, state.name) == (run, True, "Suspended")
    assert state.state_details.pause_reschedule
    assert state.state_details.pause_timeout == until_then
    assert left.value.state == state


def test_a_run_that_was_frozen_is_marked_as_running_again(monkeypatch):
    """Its server missed its heartbeats, called it crashed, and showed that to the end."""
    run, kept, states = uuid.uuid4(), [], [Crashed(message="It sends no heartbeat."), Running()]
    monkeypatch.setattr(steps, "runtime", Mock(**{"flow_run.id": str(run)}))
    monkeypatch.setattr(steps, "_state_of_run", lambda run, second: states.pop(0))
    client = Mock(set_flow_run_state=lambda *stated, force: kept.append((*stated, force)))
    monkeypatch.setattr(steps, "get_client", lambda **_: nullcontext(client))
    heed_person()
    ((of_run, state, is_forced),) = kept
    assert (of_run, is_forced, state.is_running()) == (run, True, True)
    heed_person()
    assert len(kept) == 1


@pytest.mark.parametrize("state", [Cancelling(), Cancelled()])
def test_a_cancelled_run_computes_no_more_blocks(monkeypatch, state):
    monkeypatch.setattr(steps, "runtime", Mock(**{"flow_run.id": "run"}))
    monkeypatch.setattr(steps, "_state_of_run", lambda run, second: state)
    with pytest.raises(RunCancelled, match="canceled"):
        heed_person()


def test_the_state_of_a_run_is_asked_once_a_second(monkeypatch):
    """The answer of a second is used for all blocks that start in it."""
    client, flow_run = Mock(), str(uuid.uuid4())
    client.read_flow_run.return_value.state = Running()
    monkeypatch.setattr(steps, "get_client", lambda **_: nullcontext(client))
    for second in (1, 1, 1, 2):
        assert steps._state_of_run(flow_run, second).is_running()
    assert client.read_flow_run.call_count == 2


def test_a_stored_audit_of_the_same_code_is_shown(home, ready, block, tmp_path, monkeypatch):
    cell = next(cell for cell in block.cells if cell.estimator == "adassp" and cell.calibration == "tight")
    file = tmp_path / "audits.json"
    monkeypatch.setattr("tasks.run.compute.STORED", file)
    file.write_text(json.dumps({audit_key(cell, 6): {"audited_epsilon": 0.125, "n_trials": 2000}}))
    stored_audits.cache_clear()
    assert stored_audit(cell, 6, 2001) is None
    assert stored_audit(cell, 5, 2000) is None
    assert stored_audit(replace(cell, epsilon=2 * cell.epsilon), 6, 2000) is None
    monkeypatch.setattr("tasks.steps.compute", Mock(side_effect=AssertionError))
    with transaction(key="audit-1", store=ResultStore(result_storage=LocalFileSystem(basepath=tmp_path))):
        shown = audit.fn(cell, 6, 2000, 1, is_anew=False)
    found = {"cell": cell.key, "audited_epsilon": 0.125, "n_trials": 2000}
    assert json.loads(shown.path.read_text()) == found
    stored_audits.cache_clear()


@pytest.mark.parametrize(("study", "unit"), [("housing", "row"), ("user_regression", "user")])
def test_the_risk_of_an_estimator_is_that_of_the_unit_which_the_study_protects(study, unit):
    spec = find_study(study)
    (item, *_) = (each for each in spec.estimators_of(spec.head_panel) if each.name.startswith("precond"))
    events = released_events(spec, spec.head_panel, item)
    assert {event.relation.unit_of_privacy for event in events} == {unit}
