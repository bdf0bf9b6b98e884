"""The page "I want to …" names what people search for, and power and multiplicity as they are computed."""

import pytest
import scipy

from tests.builders import PROJECT

PAGE = (PROJECT / "docs" / "guide" / "i_want_to.md").read_text(encoding="utf-8")
WORDS = [
    "power",
    "p-value",
    "random effects",
    "mixed models",
    "ordinal",
    "multiplicity",
    "quantile regression",
]
WORDS += ["sample size", "sign", "ANOVA", "histogram", "synthetic data", "impute", "R object"]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_people_search_for_is_there(word):
    assert word in PAGE


def test_power_and_multiplicity_are_those_of_the_normal_distribution():
    z = scipy.special.ndtri
    for power, times in ((0.8, 1.43), (0.9, 1.65)):
        assert (z(0.975) + z(power)) / z(0.975) == pytest.approx(times, abs=0.005)
        assert f"{times} half-widths" in PAGE
    assert pytest.approx(0.99) == 1 - 0.05 / 5
