"""What else a person does on the page: care for the ledger, lost estimates, figures, tables, refusals."""

from unittest.mock import Mock

import numpy as np
import pytest

import flows.protocol
import tasks.release.release
from data.ledger import open_ledger
from tasks.errors import SpecError
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tests.builders import refused
from tests.flows.page.driving import (
    ask,
    click,
    confirm,
    declare,
    do,
    fill,
    foresee,
    people,
    served,
    wait,
    window,
)
from tests.flows.page.test_walks import WALKS, cohort
from tests.flows.small_project import until

pytestmark = pytest.mark.browser

SAID = (
    "[...document.querySelectorAll('.shiny-notification-content-text')].map((each) => each.innerText).join()"
)
CLOSE = "document.querySelectorAll('.shiny-notification-close').forEach((each) => each.click())"


def hears(tab, words):
    """Wait until the page has told something; close what it told."""
    until(lambda: words in tab.run(SAID))
    tab.run(CLOSE)
    until(lambda: not tab.run(SAID))


def unfold(tab):
    tab.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")


def test_curves_have_figures_in_three_formats_and_a_plan_has_means_by_level(tmp_path):
    cohort(np.random.default_rng(1)).to_csv(tmp_path / "own.csv", index=False)
    with served(tmp_path, "own.csv") as address, window(address, tmp_path / "browser") as tab:
        do(tab, WALKS["epidemiologist"][1])
        do(tab, "2 Questions; kind=survival; time=time; event=event; right=smoker; add")
        do(tab, "kind=regression; left=age; right=smoker")
        unfold(tab)
        do(tab, "by_level=smoker; add; 3 Forecast")
        until(lambda: tab.run("!!document.querySelector('#half_widths svg.chart polyline')"))  # of curves
        assert "terms more" in tab.text()
        foresee(tab)
        unfold(tab)
        click(tab, "Back up the ledger")
        hears(tab, "keep it as secret")
        assert (tmp_path / "own.ledger-backup").stat().st_mode & 0o777 == 0o600
        click(tab, "Verify the ledger")
        hears(tab, "The ledger is complete")
        confirm(tab, "own")
        until(lambda: "Released." in tab.text(), timeout=300)
        until(lambda: "survival curves.pdf" in tab.text())
        for kind, head in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}.items():
            assert (tmp_path / "own-results" / f"survival curves.{kind}").read_bytes().startswith(head)
        means = (tmp_path / "own-results" / "means regression by smoker.md").read_text()
        assert "yes" in means
        assert "no" in means


def test_a_reserve_is_given_back_and_a_lost_estimate_is_charged_again(tmp_path, monkeypatch):
    folder = people(tmp_path)
    monkeypatch.setenv("DPCOST_HOME", str(folder / "home"))
    with served(folder) as address, window(address, tmp_path / "browser") as tab:
        declare(tab)
        ask(tab)
        foresee(tab)
        plan = read_plan(folder / "people-plan.toml")
        account = open_ledger().account("people")
        reserve_plan(prepare_plan(plan, account), open_ledger())
        tab.open(address, "Still missing or wrong")
        wait(tab)
        click(tab, "4 Budget")
        unfold(tab)
        click(tab, "Give it back; nothing was drawn")
        hears(tab, "is given back")
        assert [each.state for each in open_ledger().account("people").charges] == []
        reserve_plan(prepare_plan(plan, open_ledger().account("people")), open_ledger())
        with monkeypatch.context() as patch:
            patch.setattr(tasks.release.release, "draw_answer", Mock(side_effect=MemoryError))
            lost = str(plan.path), str(folder / "lost"), False
            refused(lambda: flows.protocol.protocol.fn(*lost), SpecError, "'regression'")
        assert [each.state for each in open_ledger().account("people").charges] == ["pending"]
        fill(tab, plan_epsilon="2")  # pays for another charge
        click(tab, "Forecast all questions and divide ε")
        until(lambda: "All together" in tab.text())
        click(tab, "5 Release")
        tab.run("document.getElementById('again').click()")
        confirm(tab)
        until(lambda: "Released." in tab.text() or "It ended without" in tab.text(), timeout=120)
        assert "Released." in tab.text(), tab.text()
        states = [each.state for each in open_ledger().account("people").charges]
        assert sorted(states) == ["pending", "released"]
        click(tab, "3 Forecast")
        unfold(tab)
        until(lambda: "released half-widths are within a factor of 1.5" in tab.text())
