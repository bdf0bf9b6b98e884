"""Batch systems limit a process's address space, of which what draws reserves more than most of them give."""

import pytest
from small_project import DPCOST

LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_AS, (40_000_000_000,) * 2); " + DPCOST

pytestmark = [pytest.mark.server, pytest.mark.slow]


def limited(project, *arguments):
    process = project.start(*arguments, code=LIMITED)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_a_run_with_little_address_space_writes_pages_without_pictures_and_report_draws_them(project):
    command = ("run", project.study, "--profile", "smoke", "--out", project.out)
    status, _, err = limited(project, *command)
    page = project.out / "small" / "report.html"
    assert status == 0, err
    told = [line for line in err.splitlines() if "ulimit -v" in line]
    assert len(told) == 1
    assert err.index(told[0]) < err.index("blocks")
    assert "not drawn" in page.read_text()
    status, _, err = limited(project, "report", project.study, "--out", project.out)
    assert status == 2
    assert err.count("\n") == 1
    status, _, err = limited(project, "figure", project.study, "--reports", project.out)
    assert (status, err.count("\n")) == (2, 1)
    project.dpcost("report", project.study, "--out", project.out)
    assert "not drawn" not in page.read_text()
    assert (project.out / "small" / "figures" / "main.png").exists()


def test_a_run_where_there_is_more_draws_what_an_earlier_one_did_not(project):
    command = ("run", project.study, "--profile", "smoke", "--out", project.out)
    assert limited(project, *command)[0] == 0
    _, err = project.dpcost(*command)
    assert "ulimit" not in err
    assert "not drawn" not in (project.out / "small" / "report.html").read_text()
