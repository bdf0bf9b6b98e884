"""What the page of an own table says of signs and of columns that are left out."""

import pytest

from reports.writing import render_sentence


@pytest.mark.parametrize(("linear", "rare"), [(True, False), (False, True)])
def test_only_a_likelihood_lacks_a_maximum_for_rare_columns(linear, rare):
    said = render_sentence("own_missing", left_out=["a"], no_rows="", enough=1.0, rows=3, linear=linear)
    assert "constant in these rows" in said
    assert ("likelihood" in said) is rare
