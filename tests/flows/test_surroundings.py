"""What surrounds a run and is not as it should be: proxies, no user's folder, a clock that jumps."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from small_project import DPCOST, processes_of, until

from data.ledger import Ledger
from tests.private_postgres import private_postgres

pytestmark = [pytest.mark.server, pytest.mark.slow]

NOBODY = "http://127.0.0.1:9"
PROXIES = {
    "proxies that are dead": dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), NOBODY
    ),
    "an address without http": {"HTTP_PROXY": "127.0.0.1:9", "https_proxy": ""},
    "proxies that Prefect's client cannot use": {
        "ALL_PROXY": "socks5://me:secret@127.0.0.1:9",
        "http_proxy": "no://x",
    },
}


@pytest.mark.parametrize("case", PROXIES)
def test_a_run_asks_no_proxy_for_its_own_server(project, undisturbed, case):
    _, err = project.run(**PROXIES[case])
    ignored = [line.split()[1] for line in err.splitlines() if "is ignored" in line]
    assert ignored == (["ALL_PROXY", "http_proxy"] if "cannot" in case else [])
    assert "secret" not in err
    assert project.same_results(undisturbed)


# A container's user may have no name, no entry in the list of users and no folder.
UNKNOWN = "import pwd\ndef gone(uid): raise KeyError(uid)\npwd.getpwuid = gone\n" + DPCOST


def test_a_user_without_a_name_and_a_folder_runs_studies(project, undisturbed):
    for name in ("HOME", "USER", "LOGNAME", "XDG_CACHE_HOME", "PREFECT_HOME"):
        project.environment.pop(name, None)
    process = project.start("run", project.study, "--profile", "smoke", "--out", project.out, code=UNKNOWN)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert project.same_results(undisturbed)


@pytest.fixture
def clock(project):
    """A function that sets the clock of the project's processes off by so many days."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler")
    library, days = project.folder / "clock.so", project.folder / "days"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    project.environment |= {"LD_PRELOAD": str(library), "CLOCK": str(days)}

    def jump(to):
        days.with_suffix(".new").write_text(str(to))
        days.with_suffix(".new").replace(days)

    jump(0)
    return jump


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps_in_mid_run_changes_no_result(project, long, clock, days):
    run = ["run", project.study, "--profile", "paper", "--out", project.out]
    process = project.start(*run)
    until(lambda: project.computed() or process.poll() is not None, 200)
    clock(days)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert project.same_results(long[0])
    manifest = json.loads((project.out / "small" / "manifest.json").read_text())
    assert sum(manifest["blocks"].values()) == 6
    assert ("(after " in (project.out / "small" / "report.html").read_text()) == (days > 0)
    _, err = project.dpcost(*run)
    assert "all from the cache" in err


def test_a_clock_that_jumps_costs_no_second_charge(project, clock, tmp_path):
    (tmp_path / "data.csv").write_text("age,cost\n" + "\n".join(f"0.{i:03},0.5" for i in range(400)))
    (tmp_path / "release.toml").write_text(
        '[dataset]\nname = "patients"\n[columns]\nx = ["age"]\n[bounds]\nvalue_bound = 1.0\n'
    )
    ask = ["release", "dp_mean", "--data", tmp_path / "data.csv", "--config", tmp_path / "release.toml"]
    ask += ["--epsilon", 0.1, "--delta", 1e-6, "--json"]
    project.dpcost("ledger", "open", "patients", "--epsilon", 1, "--delta", 1e-5)
    answers = []
    for days in (0, -1, 1):
        clock(days)
        answers.append(json.loads(project.dpcost(*ask)[0])["release"])
        project.dpcost("ledger", "verify")
    assert [each["ledger"]["replayed"] for each in answers] == [False, True, True]
    assert len({json.dumps(each["answer"]) for each in answers}) == 1
    assert len(Ledger(project.home).account("patients").charges) == 1


def make_read_only(folder):
    for words in (["--bind", folder, folder], ["-o", "remount,ro,bind", folder]):
        if subprocess.run(["mount", *words], capture_output=True, check=False).returncode:
            pytest.skip("mounting file systems needs more rights than these tests have")


def delete_database(folder):
    for path in folder.glob("prefect.db*"):
        path.unlink()


@pytest.mark.parametrize("lose", [delete_database, shutil.rmtree, make_read_only])
def test_a_run_whose_servers_database_is_lost_ends_with_its_results(project, long, lose):
    run = ["run", project.study, "--profile", "paper", "--out", project.out]
    process = project.start(*run)
    until(lambda: project.computed() or process.poll() is not None, 200)
    try:
        lose(project.home / "prefect")
        _, err = process.communicate(timeout=400)
    finally:
        subprocess.run(["umount", "-l", project.home / "prefect"], capture_output=True, check=False)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert project.same_results(long[0])
    assert processes_of(project.home) == []
    (project.out / "small" / "results.parquet").unlink()
    project.dpcost(*run)
    assert project.same_results(long[0])


def test_of_five_runs_at_once_in_one_home_one_runs_and_the_others_say_so(project, undisturbed):
    command = ["run", project.study, "--profile", "smoke", "--out", project.out]
    processes = [project.start(*command) for _ in range(5)]
    said = [process.communicate(timeout=400)[1] for process in processes]
    ended = [process.returncode for process in processes]
    assert set(ended) <= {0, 2}, said
    assert 0 in ended
    for status, err in zip(ended, said, strict=True):
        assert "Traceback" not in err
        assert status == 0 or err.count("\n") == 1, err
    assert project.same_results(undisturbed)
    project.dpcost("cache", "verify")
    assert processes_of(project.home) == []


def test_postgresql_records_what_a_run_does(project, undisturbed):
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with private_postgres(Path(name)) as address:
            asynchronous = address.replace("postgresql", "postgresql+asyncpg")
            _, err = project.run(PREFECT_API_DATABASE_CONNECTION_URL=asynchronous)
            engine = sa.create_engine(address.replace("postgresql", "postgresql+psycopg"))
            with engine.connect() as connection:
                states = connection.execute(sa.text("SELECT state_type FROM flow_run")).scalars().all()
            engine.dispose()
    assert [str(state) for state in states] == ["COMPLETED"]
    assert "note: the server recorded" not in err
    assert project.same_results(undisturbed)
