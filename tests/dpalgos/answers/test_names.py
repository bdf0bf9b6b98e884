"""Names of coefficients, as people write them."""

from dpalgos.answers.names import find_name


def test_of_two_columns_the_longer_one_is_quoted_within_a_name():
    """``a-b`` is the beginning of ``a-b-c``: quoted first, it would split the other one."""
    for columns in (["a-b", "a-b-c"], ["a-b-c", "a-b"]):
        assert find_name("C(`a-b-c`)[T.x]", ["C(a-b-c)[T.x]"], columns) == "C(a-b-c)[T.x]"
