"""A release whose page is loaded again, left or killed: what was paid, and where the results are."""

from contextlib import ExitStack

import psutil
import pytest

from tests.flows.page.driving import ask, click, confirm, declare, foresee, people, served, wait, window
from tests.flows.small_project import until

pytestmark = pytest.mark.browser

PAID = "was paid for regression"


def ready(tab):
    """Foresee a plan that is declared."""
    declare(tab)
    ask(tab)
    foresee(tab)


def says_where(tab, folder, *words):
    """Wait until the page says something, and where the results are."""
    until(lambda: all(word in tab.text() for word in (*words, str(folder / "people-results"))), timeout=180)


def test_a_page_loaded_again_or_left_says_what_was_paid_and_where_results_are(tmp_path):
    with served(people(tmp_path)) as address, window(address, tmp_path / "browser") as tab:
        ready(tab)
        confirm(tab)
        tab.open(address, "Results will be in")  # in the middle
        says_where(tab, tmp_path, "regression")
        assert "Under way. A closed window does not end it." in tab.text()
        click(tab, "Another table")
        until(lambda: "Which table?" in tab.text())
        tab.run("history.back()")
        says_where(tab, tmp_path, "Released.", PAID)
        tab.open(address, "Released.")  # after it
        says_where(tab, tmp_path, PAID)
        tab.send("Page.navigate", url="about:blank")
        tab.run("history.back()")
        says_where(tab, tmp_path, "Released.", PAID)
    with served(tmp_path) as address, window(address, tmp_path / "another") as tab:
        click(tab, "5 Release")
        says_where(tab, tmp_path, PAID)
        assert "The released results" in tab.run("document.querySelector('iframe.results').title")


def test_a_server_killed_in_a_release_leaves_the_release_and_says_so(tmp_path):
    with ExitStack() as windows:
        with served(people(tmp_path)) as address:
            tab = windows.enter_context(window(address, tmp_path / "browser"))
            ready(tab)
            confirm(tab)
            (server,) = (each for each in psutil.Process().children() if "--no-browser" in each.cmdline())
            server.kill()
            until(lambda: "This page has stopped, and its files stay." in tab.text())
        until(lambda: [*(tmp_path / "people-results").rglob("release.json")], timeout=180)
    with served(tmp_path) as address, window(address, tmp_path / "another") as tab:
        click(tab, "5 Release")
        says_where(tab, tmp_path, PAID)
        wait(tab)
        click(tab, "4 Budget")
        assert tab.text().count("people-plan/regression") == 1
