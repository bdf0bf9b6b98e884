"""Small disks in the place of each folder that a run writes to: a sentence, and the same command goes on."""

import contextlib
import json
import os
import subprocess
import time

import pytest

from data.ledger import Ledger
from tests.builders import release_file

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def disks():
    """Mount file systems of a given size, and let them grow."""
    mounted = []

    def mount(folder, size):
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting file systems needs more rights than these tests have")
        mounted.append(folder)

    yield mount
    for folder in reversed(mounted):
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder, leave=0):
    """Write into a file until the disk is full, and return it; leave some bytes."""
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
    os.truncate(folder / "filler", (folder / "filler").stat().st_size - leave)
    return folder / "filler"


def grow(folder):
    subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)


def test_a_run_says_which_disk_is_full_and_goes_on_with_space(project, undisturbed, disks, monkeypatch):
    home, results = project.home, project.out / "small"
    monkeypatch.setenv("DPCOST_HOME", str(home))
    stages = [
        (home / "prefect", "100k", f"the disk of {home / 'prefect'} is full"),
        (home / "store" / "parquet", "200k", f"cannot write {home / 'store' / 'parquet'}"),
        (home / "cache" / "designs", "100k", f"cannot write {home / 'cache' / 'designs'}"),
        (home / "cache" / "blocks", "12k", f"cannot write {home / 'cache' / 'blocks'}"),
        (results, "12k", f"cannot write {results}"),
        (results / "figures", "40k", f"cannot write {results / 'figures'}"),
    ]
    for folder, size, _ in stages:
        disks(folder, size)
    (results / ".dpcost-run").touch()  # as a run does that begins to write it
    said = []
    for folder, _, sentence in stages:
        _, err = project.run(status=2)
        said.append(err.strip().splitlines()[-1])
        assert sentence in said[-1]
        assert "free some space" in said[-1]
        grow(folder)
    project.run()
    assert project.same_results(undisturbed)


def test_a_full_folder_for_temporary_files_stops_no_run(project, undisturbed, disks, tmp_path):
    full = tmp_path / "full"
    disks(full, "16k")
    fill(full)
    for options in ((), ("--engine", "dask", "--workers", "1", "--seed", "1")):
        project.run(*options, TMPDIR=str(full))
        assert options or project.same_results(undisturbed)


def test_a_server_whose_disk_fills_up_in_mid_run_is_told_and_the_same_command_goes_on(project, long, disks):
    server = project.home / "prefect"
    disks(server, "100m")
    run = ["run", project.study, "--profile", "paper", "--out", project.out]
    process = project.start(*run)
    while not any(name.endswith(".parquet") for name in project.computed()) and process.poll() is None:
        time.sleep(0.05)
    fill(server)
    _, err = process.communicate(timeout=300)
    assert "Traceback" not in err
    assert "Error logging to API" not in err
    (told,) = [line for line in err.splitlines() if f"the disk of {server} is full" in line]
    assert "free some space" in told
    assert process.returncode == (0 if told.startswith("note: ") else 2), err  # by what the database had left
    before = project.computed()
    assert before
    (server / "filler").unlink()
    project.dpcost(*run)
    after = project.computed()
    assert {name: after[name] for name in before} == before
    assert project.same_results(long[0])


def test_a_release_on_a_full_disk_shows_nothing_that_is_not_stored(project, disks, tmp_path):
    home = tmp_path / "small disk"
    disks(home, "3m")
    (tmp_path / "data.csv").write_text("age,cost\n" + "\n".join(f"0.{i:03},0.5" for i in range(400)))
    release_file(tmp_path, "patients", ["age"])
    ask = ["release", "dp_mean", "--data", tmp_path / "data.csv", "--config", tmp_path / "release.toml"]
    ask += ["--epsilon", 0.1, "--delta", 1e-6, "--json"]
    project.dpcost("ledger", "open", "patients", "--epsilon", 1, "--delta", 1e-5, DPCOST_HOME=str(home))
    for leave in (0, 24_000):
        filler = fill(home, leave)
        shown, err = project.dpcost(*ask, status=2, DPCOST_HOME=str(home))
        assert "disk has room" in err
        assert shown == ""
        filler.unlink()
        assert all(charge.answer is None for charge in Ledger(home).account("patients").charges)
    first = json.loads(project.dpcost(*ask, "--again", DPCOST_HOME=str(home))[0])
    again = json.loads(project.dpcost(*ask, DPCOST_HOME=str(home))[0])
    assert again["release"]["ledger"]["replayed"]
    assert again["release"]["answer"] == first["release"]["answer"]
    assert Ledger(home).verify().ok
