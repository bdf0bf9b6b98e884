"""What surrounds a run and is not as it should be: proxies, no user's folder, a clock that jumps."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from small_project import processes_of, until

from tests.private_postgres import private_postgres

pytestmark = [pytest.mark.server, pytest.mark.slow]


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
