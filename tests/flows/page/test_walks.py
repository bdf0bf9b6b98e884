"""Walks of people with a table of their own: at most 25 actions to the first forecast, and no dead end."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from tests.flows.page.driving import act, click, confirm, do, fill, served, wait, window
from tests.flows.small_project import until

pytestmark = pytest.mark.browser

MOST_ACTIONS = 25
GERMAN = str.maketrans(",.", ".,")


def cohort(rng, n=3000):
    """An epidemiologist's times to an event."""
    f = pd.DataFrame({"age": rng.integers(40, 90, n), "sex": rng.choice([1, 2], n)})
    f["smoker"] = rng.choice(["yes", "no"], n, p=[0.3, 0.7])
    t = rng.exponential(50 * np.exp(-0.04 * (f.age - 65) - 0.6 * (f.smoker == "yes")))
    c = rng.uniform(2, 10, n)
    return f.assign(time=np.minimum(t, c).round(2), event=(t <= c).astype(int))


def pupils(rng, n=1200):
    """A teacher's pupils of forty schools, with a code for a missing score."""
    f = pd.DataFrame({"pupil": np.arange(n), "school": rng.integers(1, 41, n), "girl": rng.integers(0, 2, n)})
    f["hours"] = rng.integers(0, 21, n)
    f["score"] = (50 + 1.2 * f.hours + rng.normal(0, 10, n)).clip(0, 98).round().astype(int)
    f.loc[rng.random(n) < 0.05, "score"] = 99
    return f


def wages(rng, n=4000):
    """An economist's weighted rows."""
    f = pd.DataFrame({"wage": np.exp(rng.normal(2.8, 0.5, n)).clip(1, 200).round(2)})
    f["educ"], f["region"] = rng.integers(8, 21, n), rng.choice(["north", "south"], n)
    return f.assign(weight=rng.uniform(0.5, 3, n).round(3))


def visits(rng, n=3000):
    """A nurse's several visits of a patient."""
    person = rng.integers(0, 900, n)
    return pd.DataFrame({"patient": person, "pain": rng.integers(0, 11, n), "arm": rng.choice(["a", "b"], n)})


WALKS = {  # a table, what is declared of it, and a question
    "epidemiologist": (
        cohort,
        "all; unit=one; source_all=the protocol; number_lower_0=40; number_upper_0=90; kind_1=category; "
        "category_categories_1=1, 2; category_categories_2=no, yes; kind_3=time; time_upper_3=10; "
        "time_periods_3=0, 2, 5, 10; kind_4=binary",
        "kind=hazard; time=time; event=event; right=age; right=smoker",
    ),
    "teacher": (
        pupils,
        "used=girl; used=hours; used=score; unit=groups; by=school; protect=rows; source_all=the rules; "
        "kind_2=binary; number_lower_3=0; number_upper_3=20; number_lower_4=0; number_upper_4=98; "
        "number_missing_4=99; number_impute_4=50",
        "left=score; right=hours; right=girl",
    ),
    "teacher who protects schools": (
        pupils,
        "used=girl; used=score; unit=groups; by=school; protect=groups; users=40; source_all=the rules; "
        "kind_2=binary; number_lower_4=0; number_upper_4=99",
        "left=score; right=girl",
    ),
    "economist": (
        wages,
        "used=wage; used=educ; used=region; unit=one; source_all=the survey; weights=weight; max_weight=3; "
        "number_lower_0=0; number_upper_0=200; number_lower_1=0; number_upper_1=25; "
        "category_categories_2=north, south",
        "left=wage; right=educ; right=region",
    ),
    "nurse": (
        visits,
        "used=pain; used=arm; unit=people; by=patient; users=900; source_all=the form; number_lower_1=0; "
        "number_upper_1=10; category_categories_2=a, b",
        "left=pain; right=arm",
    ),
}


@pytest.mark.parametrize("who", WALKS)
def test_a_walk_reaches_a_forecast_without_a_dead_end(tmp_path, who):
    table, declarations, question = WALKS[who]
    table(np.random.default_rng(1)).to_csv(tmp_path / "own.csv", index=False)
    with served(tmp_path, "own.csv") as address, window(address, tmp_path / "browser") as tab:
        actions = f"{declarations}; 2 Questions; {question}; add; 3 Forecast".split("; ")
        assert len(actions) <= MOST_ACTIONS
        for action in actions:
            if action == "2 Questions":
                until(lambda: "Go on with step 2" in tab.text())
            act(tab, action)
            assert not tab.run("!!document.querySelector('.shiny-notification-error')"), action
        until(lambda: "±" in tab.text() or "No interval is expected" in tab.text(), timeout=60)


def test_a_walk_in_german_numbers_reaches_a_release(tmp_path):
    """A table with 1.234,5 opens as it is written, and fields take 0,5."""
    rows = [f"{20 + k % 60};{f'{1000 + k * 0.5:,.2f}'.translate(GERMAN)};{'ab'[k % 2]}" for k in range(3000)]
    (tmp_path / "kosten.csv").write_text("alter;kosten;gruppe\n" + "\n".join(rows) + "\n")
    with served(tmp_path, "") as address, window(address, tmp_path / "browser", shows="Which table?") as tab:
        fill(tab, known="kosten.csv")
        click(tab, "Open it")
        until(lambda: "thousands" in tab.run("document.querySelector('.shiny-notification').innerText"))
        fill(tab, decimal=",")
        click(tab, "Open it")
        until(lambda: "Still missing or wrong" in tab.text())
        wait(tab)
        do(tab, "all; unit=one; source_all=ein Gesetz; number_lower_0=18,0; number_upper_0=90; size=3.000")
        do(tab, "number_lower_1=0; number_upper_1=2.500,5; category_categories_2=a, b")
        until(lambda: "Go on with step 2" in tab.text())
        do(tab, "2 Questions; left=kosten; right=alter; right=gruppe; add; 3 Forecast")
        until(lambda: "±" in tab.text(), timeout=60)
        do(tab, "guessed=shares of gruppe; guess_shares_2=0,5;0,5")
        do(tab, "guessed=explained; guess_explained=0,25; wanted=12,5")
        until(lambda: "± 12.5" in tab.text(), timeout=60)
        do(tab, "4 Budget; total_epsilon=2,5; Open the budget; plan_epsilon=0,5")
        click(tab, "Forecast all questions and divide ε")
        until(lambda: "All together" in tab.text(), timeout=60)
        confirm(tab, "kosten")
        until(lambda: "Released." in tab.text(), timeout=300)
    declared, plan = (tomllib.loads((tmp_path / f"kosten{end}.toml").read_text()) for end in ("", "-plan"))
    assert [each.get("upper") for each in declared["data"]["columns"]] == [90, 2500.5, None]
    assert declared["data"]["rows"] == 3000
    assert declared["guesses"]["shares"] == {"gruppe": [0.5, 0.5]}
    assert declared["guesses"]["explained"] == 0.25
    assert plan["plan"]["epsilon"] == 0.5
