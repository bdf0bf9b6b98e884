"""``dpcost local``: devices, server and rounds, as a user types them."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from small_project import sentence

from data.formats.local_reports import ReportTable, message_digest, read_reports, write_reports
from dpalgos.local.rounds import device_reports
from tasks.local_protocol import first_message

CONFIG = """
[protocol]
estimator = "{estimator}"
epsilon = {epsilon}
delta = 1e-6
{protocol}
[columns]
x = ["a", "b", "c"]
y = "cost"
{columns}
[bounds]
covariate_bound = 1.0
{bounds}
[params]
{params}
"""
N = 4000


def write_config(
    path,
    estimator="ldp_nldp",
    epsilon=4.0,
    protocol="",
    bounds="response_bound = 2.0",
    params="",
    columns="",
):
    parts = {"protocol": protocol, "bounds": bounds, "params": params, "columns": columns}
    path.write_text(CONFIG.format(estimator=estimator, epsilon=epsilon, **parts))
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (N, 3)) * 2.0 - 1
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        cost=X @ [0.6, -0.4, 0] + rng.uniform(-0.5, 0.5, N)
    )
    path = tmp_path_factory.mktemp("people") / "rows.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def played(data, tmp_path_factory, exit_status):
    """A configuration, and the reports of all its people."""
    folder = tmp_path_factory.mktemp("played")
    config, out = write_config(folder / "local.toml"), folder / "reports.arrow"
    assert exit_status("local", "report", "--config", config, "--data", data, "--out", out) == 0
    return config, out


@pytest.fixture
def dpcost(command_line):
    return partial(command_line, "local")


def test_the_server_estimates_from_reports_alone(played, dpcost):
    status, out, _ = dpcost("aggregate", played[1], "--json")
    answer = json.loads(out)
    assert status == 0
    errors = np.array([answer["estimate"][c] for c in "abc"]) - [0.6, -0.4, 0]
    standard = np.array([answer["standard_error"][c] for c in "abc"])
    assert (np.abs(errors) < 7 * standard + 0.03).all()
    assert (standard < 0.2).all()
    assert 3.99 < answer["certified_epsilon"] <= 4
    assert (answer["n_reports"], answer["n_shortened"]) == (N, 0)
    text = dpcost("aggregate", played[1])[1]
    assert "4,000 reports, each (" in text
    assert "on its own" in text


def test_reports_have_one_size_and_differ_every_time(played, data, tmp_path, exit_status):
    config, out = played
    first = read_reports(out)
    assert first.reports.shape == (N, 9)
    again = tmp_path / "again.arrow"
    exit_status("local", "report", "--config", config, "--data", data, "--out", again)
    again = read_reports(again)
    assert not (first.reports == again.reports).any()
    assert not set(first.ids) & set(again.ids)


def test_rounds_hand_out_what_the_next_group_answers(data, dpcost, tmp_path):
    config = write_config(tmp_path / "local.toml", "ldp_iht", params="sparsity = 2\nn_rounds = 2")
    states, reports = (
        [tmp_path / f"state{t}.json" for t in (0, 1, 2)],
        [tmp_path / f"r{t}.arrow" for t in (0, 1)],
    )
    assert dpcost("round", "--config", config, "--out", states[0])[0] == 0
    for t in (0, 1):
        state = ("--state", states[t], "--config", config)
        status, out, _ = dpcost("report", *state, "--data", data, "--out", reports[t])
        assert (status, out.split()[0]) == (0, f"{N // 2:,}")
        assert dpcost("round", reports[t], "--state", states[t], "--out", states[t + 1])[0] == 0
    status, out, _ = dpcost("aggregate", reports[1], "--json")
    answer = json.loads(out)
    assert (answer["round"], answer["n_rounds"], len(answer["estimate"])) == (2, 2, 3)
    assert abs(answer["estimate"]["a"] - 0.6) < 7 * answer["standard_error"]["a"] + 0.05
    assert "round 1 of 2" in dpcost("aggregate", reports[0])[1]

    err = sentence(dpcost("aggregate", reports[0], "--state", states[1]))
    assert "are of round 1, and this is round 2" in err
    status, _, err = dpcost(
        "report", "--state", states[2], "--data", data, "--out", tmp_path / "x.arrow", "--max-epsilon", 4
    )
    assert (status, "all 2 rounds are over" in err) == (2, True)


N_PEOPLE, N_ROUNDS = 600, 3


def rows_of_people(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.uniform(-1, 1, (N_PEOPLE + N_ROUNDS, 3)), columns=["a", "b", "c"]).assign(
        cost=0.5, person=[f"p{k:04d}" for k in range(N_PEOPLE + N_ROUNDS)]
    )


def appended(people, t):
    return people[: N_PEOPLE + t]


def sorted_anew(people, t):
    return people[:N_PEOPLE].sort_values("abc"[t])


def edited(people, t):
    return people[:N_PEOPLE].assign(a=people["a"] + 0.25 * t)


def played_rounds(dpcost, monkeypatch, folder, change, columns=""):
    """Play all rounds on a file that changes in between; return each round's status, message and people."""
    import tasks.local_protocol as module

    asked, rounds = [], []

    def noted(algorithm, state, X, y):
        asked.append(X[:, 0])
        return device_reports(algorithm, state, X, y)

    monkeypatch.setattr(module, "device_reports", noted)
    config = write_config(
        folder / "local.toml", "ldp_iht", params=f"sparsity = 2\nn_rounds = {N_ROUNDS}", columns=columns
    )
    states, data = [folder / f"state{t}.json" for t in range(N_ROUNDS + 1)], folder / "rows.csv"
    state = states[0]
    assert dpcost("round", "--config", config, "--out", state)[0] == 0
    for t in range(N_ROUNDS):
        change(rows_of_people(), t).to_csv(data, index=False)
        out = folder / f"r{t}.arrow"
        status, _, err = dpcost("report", "--state", state, "--config", config, "--data", data, "--out", out)
        rounds.append((status, err))
        if status == 0:
            state, before = states[t + 1], state
            assert dpcost("round", out, "--state", before, "--out", state)[0] == 0
    return rounds, asked


@pytest.mark.parametrize("change", [appended, sorted_anew])
def test_people_with_ids_are_asked_once_whatever_becomes_of_their_file(change, dpcost, monkeypatch, tmp_path):
    rounds, asked = played_rounds(dpcost, monkeypatch, tmp_path, change, 'id = "person"')
    assert [status for status, _ in rounds] == [0] * N_ROUNDS
    everyone = np.concatenate(asked)
    assert len(np.unique(everyone)) == len(everyone) >= N_PEOPLE
    assert min(map(len, asked)) > N_PEOPLE / N_ROUNDS / 2


@pytest.mark.parametrize("change", [appended, sorted_anew, edited])
def test_without_ids_a_file_that_differs_is_refused(change, dpcost, monkeypatch, tmp_path):
    rounds, asked = played_rounds(dpcost, monkeypatch, tmp_path, change)
    assert [status for status, _ in rounds] == [0, 2, 2]
    assert "is not as it was in round 1" in rounds[1][1]
    assert "columns.id" in rounds[1][1]
    assert [len(people) for people in asked] == [N_PEOPLE // N_ROUNDS]


def test_without_ids_the_public_state_tells_the_server_nothing_of_the_values(dpcost, monkeypatch, tmp_path):
    """A plain hash of the file would let it test guesses: the fingerprint differs in every home."""
    fingerprints = set()
    for home in ("one", "other"):
        monkeypatch.setenv("DPCOST_HOME", str(tmp_path / home))
        (tmp_path / home).mkdir()
        rounds, asked = played_rounds(dpcost, monkeypatch, tmp_path / home, lambda people, _: people)
        assert [status for status, _ in rounds] == [0] * N_ROUNDS
        assert len(np.unique(np.concatenate(asked))) == N_PEOPLE + N_ROUNDS
        state = json.loads((tmp_path / home / f"state{N_ROUNDS}.json").read_text())["state"]
        assert list(state["files"].values()) == [N_PEOPLE + N_ROUNDS]
        fingerprints |= set(state["files"])
        assert (tmp_path / home / "local.key").stat().st_mode & 0o077 == 0
    assert len(fingerprints) == 2


@pytest.mark.parametrize(("ids", "fault"), [(["x", "x"], "ids must differ"), (["x", ""], "without an id")])
def test_ids_that_do_not_name_each_person_once_are_refused(ids, fault, dpcost, tmp_path):
    config = write_config(
        tmp_path / "c.toml", "ldp_iht", params="sparsity = 2\nn_rounds = 2", columns='id = "person"'
    )
    rows_of_people()[:2].assign(person=ids).to_csv(tmp_path / "rows.csv", index=False)
    words = ("report", "--config", config, "--data", tmp_path / "rows.csv", "--out", tmp_path / "r")
    assert fault in refused(dpcost, *words)


def test_a_device_answers_no_state_that_asks_for_more_than_it_allows(data, dpcost, tmp_path):
    config = write_config(tmp_path / "local.toml", epsilon=2.0)
    state = tmp_path / "state.json"
    dpcost("round", "--config", config, "--out", state)
    message = json.loads(state.read_text())
    message["settings"]["epsilon"] = 12.0
    message["settings"]["delta"] = 0.9
    greedy = tmp_path / "greedy.json"
    greedy.write_text(json.dumps(message))
    out = tmp_path / "r.arrow"
    words = ("report", "--data", data, "--out", out, "--state")
    assert "--config or --max-epsilon must be given" in refused(dpcost, *words, state)
    assert "--max-epsilon must be at least 12" in refused(dpcost, *words, greedy, "--max-epsilon", 2)
    assert "differs in delta, epsilon" in refused(dpcost, *words, greedy, "--config", config)
    assert refused(dpcost, *words, state, "--max-epsilon", "nan")
    assert not out.exists()
    assert dpcost(*words, state, "--max-epsilon", 2, "--config", config)[0] == 0


def test_public_rows_travel_with_the_message(data, dpcost, tmp_path):
    X = np.random.default_rng(3).integers(0, 2, (500, 3)) * 2.0 - 1
    pd.DataFrame(X, columns=["a", "b", "c"]).to_csv(tmp_path / "public.csv", index=False)
    config = write_config(tmp_path / "c.toml", "ldp_nldp_public", protocol='public_rows = "public.csv"')
    assert dpcost("report", "--config", config, "--data", data, "--out", tmp_path / "r.arrow")[0] == 0
    (tmp_path / "public.csv").unlink()
    answer = json.loads(dpcost("aggregate", tmp_path / "r.arrow", "--json")[1])
    assert abs(answer["estimate"]["a"] - 0.6) < 7 * answer["standard_error"]["a"] + 0.05


def changed(table, path, **parts):
    whole = {name: parts.get(name, getattr(table, name)) for name in ("message", "ids", "states", "reports")}
    write_reports(path, ReportTable(**whole))
    return path


def refused(dpcost, *words):
    return sentence(dpcost(*words))


OTHER_IDS = [b"%16d" % i for i in range(N)]


def spoiled(reports):
    reports = reports.copy()
    reports[7, 3] = np.nan
    return reports


@pytest.mark.parametrize(
    ("parts", "together", "fault"),
    [
        (lambda of: {"ids": [of.ids[0], of.ids[0], *of.ids[2:]]}, False, "1 reports came twice"),
        (lambda of: {}, True, "4000 reports came twice"),
        (lambda of: {"reports": of.reports[:, :-1].copy()}, False, "must have 9 numbers each"),
        (lambda of: {"reports": of.reports[:, :-1].copy(), "ids": OTHER_IDS}, True, "got 8, 9 numbers"),
        (lambda of: {"reports": spoiled(of.reports)}, False, "must hold finite numbers"),
        (lambda of: {"states": [b"\0" * 32, *of.states[1:]]}, False, "1 of 4000 reports answer another"),
        (lambda of: {"reports": of.reports.astype(np.float32)}, False, "lists of double-precision numbers"),
        (lambda of: {"message": b"{}", "states": [message_digest(b"{}")] * N}, False, "no public state"),
    ],
)
def test_reports_that_do_not_belong_are_refused(played, dpcost, tmp_path, parts, together, fault):
    """One file of reports, or it together with a good one."""
    table = read_reports(played[1])
    bad = changed(table, tmp_path / "bad.arrow", **parts(table))
    assert fault in refused(dpcost, "aggregate", bad, *([played[1]] if together else []))


def test_reports_of_another_configuration_are_refused(played, dpcost, tmp_path):
    path, bad = played[1], tmp_path / "bad.arrow"
    other = write_config(tmp_path / "other.toml", epsilon=2.0)
    assert "reports are for epsilon = 4, not 2" in refused(dpcost, "aggregate", path, "--config", other)
    other = write_config(tmp_path / "other.toml", params='threshold = "soft"')
    assert "of another configuration" in refused(dpcost, "aggregate", path, "--config", other)
    theirs = first_message(other).to_bytes()
    changed(read_reports(path), bad, message=theirs, states=[message_digest(theirs)] * N, ids=OTHER_IDS)
    assert "are of another configuration" in refused(dpcost, "aggregate", path, bad)


def test_files_that_hold_no_reports_are_refused(played, data, dpcost, tmp_path):
    config, path = played
    assert "is not an Arrow file of reports" in refused(dpcost, "aggregate", data)
    assert "is not a file" in refused(dpcost, "aggregate", tmp_path / "none.arrow")
    assert "one of the two, got none" in refused(dpcost, "round", "--out", tmp_path / "s.json")
    assert "one of the two, got both" in refused(
        dpcost, "round", "--out", tmp_path / "s.json", "--config", config, "--state", config
    )
    assert "holds no public state" in refused(
        dpcost, "round", path, "--out", tmp_path / "s", "--state", config
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "adassp"}, "protocol.estimator must be a locally private one, got 'adassp'"),
        ({"params": 'mechanism = "gaussian"'}, "got 'gaussian', whose noise is for research only"),
        ({"params": "epsilon = 9.0"}, "params.epsilon must be left out, got 9.0; [protocol] says"),
        ({"params": "response_moment = [4.0, 1.0]", "bounds": ""}, "protocol.people must be given"),
        (
            {"bounds": "covariance_eigenvalue_bounds = [0.0, 1.0]\nresponse_bound = 2.0"},
            "must be a positive finite",
        ),
        ({"params": "response_bound = 3.0", "bounds": ""}, "params.response_bound must stand in [bounds]"),
        ({"estimator": "ldp_nldp_public"}, "public_X must be given, got none"),
    ],
    ids=str,
)
def test_bad_configurations_are_refused_before_anyone_reports(data, dpcost, tmp_path, settings, message):
    config = write_config(tmp_path / "bad.toml", **settings)
    out = tmp_path / "r.arrow"
    assert message in refused(dpcost, "report", "--config", config, "--data", data, "--out", out)
    assert not out.exists()


def test_no_value_of_a_row_is_shown(dpcost, tmp_path):
    config = write_config(tmp_path / "c.toml")
    (tmp_path / "rows.csv").write_text("a,b,c,cost\n1,2,hello,987654.321\n")
    err = refused(
        dpcost, "report", "--config", config, "--data", tmp_path / "rows.csv", "--out", tmp_path / "r"
    )
    assert "hello" not in err
    assert "987654" not in err
