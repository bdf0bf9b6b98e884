"""Small disks in the place of each folder that a run writes to: a sentence, and the same command goes on."""

import subprocess

import pytest

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def disks():
    """Mount file systems of a given size."""
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


def test_a_run_says_which_disk_is_full_and_goes_on_with_space(project, undisturbed, disks, monkeypatch):
    home, results = project.home, project.out / "small"
    monkeypatch.setenv("DPCOST_HOME", str(home))
    stages = [
        (home / "prefect", "100k", f"the disk of {home / 'prefect'} is full"),
        (home / "store" / "parquet", "200k", f"cannot write {home / 'store' / 'parquet'}"),
        (home / "cache", "1200k", str(home / "cache")),  # less than a MB is as good as full
        (results, "12k", f"cannot write {results}"),
        (results / "figures", "40k", f"cannot write {results / 'figures'}"),
    ]
    for folder, size, _ in stages:
        disks(folder, size)
    (results / ".dpcost-run").touch()  # as a run does that begins to write it
    for folder, _, sentence in stages:
        said = project.run(status=2)[1].strip().splitlines()[-1]
        assert sentence in said
        assert "free some space" in said
        subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)
    project.run()
    assert project.same_results(undisturbed)


def test_a_record_that_cannot_be_written_is_named_and_its_block_is_computed_again(
    project, undisturbed, disks
):
    """Prefect only logs it; the results are right all the same."""
    disks(project.home / "cache" / "records", "4k")
    assert "could not be recorded" in project.run()[1]
    assert project.same_results(undisturbed)
