"""The number of users is one number, however their ids are spelled."""

import unicodedata

import numpy as np
import pytest

from dpalgos import Sample
from dpalgos.rows.units import count_users
from tests.builders import visits


@pytest.mark.parametrize("text", ["é0", "\u00b5g", "각0"])
def test_two_unicode_forms_of_an_id_are_one_user(text):
    other = text.replace("\u00b5", "\u03bc") if "\u00b5" in text else unicodedata.normalize("NFD", text)
    assert other != text
    ids = np.array([text, other, "b", "c"])
    assert count_users(ids, 4) == 3
    assert Sample(np.zeros((4, 1)), user_ids=ids).n_users.tolist() == [3]
    frame = visits()
    assert count_users(frame["patient"], len(frame)) == 60
