"""The page of one release."""

import re

import pytest

from reports.pages.release_page import render_release

RECORD = {
    "deployment": {
        "product": {"name": "mine", "data_product_type": "Statistical model", "description": "A regression."},
        "dp_flavor": {"name": "Approximate DP"},
    },
    "release": {
        "answer": [{"name": "age", "estimate": 206.3, "lower": None, "upper": None}],
        "level": 0.95,
        "interval_note": "no interval for columns age: noise hides it",
        "public_shape": None,
        "risk": {"unit": "row", "sentence": "an attacker learns little", "posterior": {"0.1": 0.17}},
        "events": [],
        "public": [],
        "ledger": {"charge": "abc"},
        "hardened_noise": "yes",
        "software": {},
    },
}


@pytest.fixture(scope="module")
def page():
    return render_release(RECORD).decode()


def test_sentences_begin_with_a_capital_and_end_with_a_stop(page):
    assert "No interval for columns age: noise hides it.</p>" in page
    assert "<h2>Kind of differential privacy</h2>" in page
    assert "flavor" not in page


def test_a_missing_end_is_called_so_and_figures_scale(page):
    assert page.count("<td>none</td>") == 2
    svg = re.search("<svg[^>]*>", page)[0]
    assert "viewBox" in svg
