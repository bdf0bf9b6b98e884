"""Users are counted alike in ``dpalgos.estimate`` and in a release of a file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.formats.canonical import MISSING
from data.tables.declared import UserIds
from dpalgos.errors import InputError
from dpalgos.rows.users import user_codes

NUMBERS = st.integers(-20, 20).flatmap(
    lambda number: st.sampled_from(
        [f"{number}", f"{number}.0", f" {number}", f"{number:+04d}", f"{number}e0", f"{number}.5"]
    )
)
NAMES = st.sampled_from(["é", "e\u0301", " é", "Ann", "ann", "ann\t", "a1", "\u2163", "7a", "1_000", "٣"])
MANY_NOTATIONS = ["2024-01-01", "2024-01-01 00:00", "12:30", "1 days", "True", "true"]
DATES = st.sampled_from(MANY_NOTATIONS)


def codes_in_a_release(ids):
    column = UserIds(Path("visits.csv"), "person")
    column.add(pa.RecordBatch.from_pydict({"person": pa.array(ids)}))
    return column.codes()


def codes_of_an_estimate(ids):
    return user_codes(ids, len(ids))


def users(ids, rule, refusal):
    """Return which rows each row shares its user with, (n, n), or None if the ids are refused."""
    try:
        codes = rule(ids)
    except refusal:
        return None
    return codes[:, None] == codes


@given(
    st.one_of(*(st.lists(st.one_of(*kinds), min_size=1) for kinds in ([NUMBERS], [NAMES], [NAMES, DATES])))
)
def test_an_estimate_counts_users_as_a_release_does(ids):
    released = users(ids, codes_in_a_release, DataError)
    for given_ids in (ids, np.array(ids), np.array(ids, dtype=object)):
        estimated = users(given_ids, codes_of_an_estimate, InputError)
        if estimated is not None:
            np.testing.assert_array_equal(estimated, released)
        else:  # an estimate also refuses dates, which can be written in many ways
            assert released is None or set(ids) & set(MANY_NOTATIONS)


@pytest.mark.parametrize(
    "ids",
    [
        ["7", "007", "7.0", "+7", "7e0", " 7 "],
        ["é", "e\u0301", " é "],
        [7, 7.0],
        np.array([7.0, 7.0]),
    ],
)
def test_one_user_in_several_notations_is_one_user(ids):
    for rule in (codes_of_an_estimate, codes_in_a_release):
        assert len(set(rule(ids))) == 1


@pytest.mark.parametrize("id_", ["7.5", "inf", "1e400", "9007199254740992", *MISSING, 2**60, 0.5, np.nan])
def test_what_may_be_two_users_or_none_is_refused_by_both(id_):
    rest = ["1", "2"] if isinstance(id_, str) else [1, 2]
    with pytest.raises(InputError, match="user_ids"):
        codes_of_an_estimate([id_, *rest])
    with pytest.raises(DataError):
        codes_in_a_release([id_, *rest])


def test_numbers_mixed_with_text_are_refused_by_both():
    assert users(["1", "ann"], codes_of_an_estimate, InputError) is None
    assert users(["1", "ann"], codes_in_a_release, DataError) is None
