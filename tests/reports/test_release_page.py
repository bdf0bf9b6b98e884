"""The page of one release."""

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
        "risk": {"unit": "row", "sentence": "an attacker learns little", "posterior": {"0.1": 0.17}},
        **{"events": [], "public": [], "ledger": {"charge": "abc"}, "hardened_noise": "yes", "software": {}},
    },
}


def test_the_table_is_preceded_by_the_question_and_shows_centers_of_intervals():
    import copy

    record = copy.deepcopy(RECORD)
    record["deployment"]["privacy_loss"] = {"privacy_parameters": {"epsilon": 2.0, "delta": 1e-6}}
    record["release"] |= {
        "model": {"formula": "cost ~ age", "n": 4000},
        "answer": [{"name": "age", "estimate": 7.0, "lower": 10.0, "upper": 20.0}],
        "covers": "Intervals cover the coefficients of least squares.",
    }
    page = render_release(record).decode()
    before, table = page.replace("\xa0", " ").split("<table", 1)
    for said in ("cost ~ age", "4,000 rows", "ε = 2, δ = 1e-06"):
        assert said in before
    for cell in ("15.0", "2.55", "[10.0, 20.0]", "&lt; .001"):
        assert f">{cell}</td>" in table
    assert "coefficients of least squares" in table
    assert "centers of their intervals" in table
