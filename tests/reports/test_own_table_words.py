"""What the page of an own table says of signs and of columns that are left out."""

import pytest

from reports.writing import render_sentence


@pytest.mark.parametrize(("linear", "rare"), [(True, False), (False, True)])
def test_only_a_likelihood_lacks_a_maximum_for_rare_columns(linear, rare):
    said = render_sentence("own_missing", left_out=["a"], no_rows="", enough=1.0, rows=3, linear=linear)
    assert "constant in these rows" in said
    assert ("likelihood" in said) is rare


@pytest.mark.parametrize("surviving", [[], ["age"]])
def test_the_verdict_on_signs_is_about_what_the_answer_says(surviving):
    common = {"name": "x", "n": 90, "units": "rows", "epsilon": 1.0, "none_sure": False, "n_rows": 3}
    said = render_sentence("own_coefficients", surviving=surviving, **common)
    assert "survives" not in said
    assert ("does not say which signs are right" in said) is (not surviving)
