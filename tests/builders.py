"""What tests are made of: a table, a user's file, a study, a result, a home; and how a refusal is checked."""

import pytest


def refused(use, error, *named, hidden=()):
    """Check that a call is refused in one sentence with some words and without others; return it."""
    with pytest.raises(error) as caught:
        use()
    sentence = str(caught.value)
    assert "\n" not in sentence.strip()
    assert not [word for word in named if str(word) not in sentence], sentence
    assert not [word for word in hidden if str(word) in sentence], sentence
    assert not hidden or caught.value.__suppress_context__ or caught.value.__context__ is None
    return sentence


def refusals(table):
    """Parametrize a test by a table of refusals: the exception, what its sentence names, what is tried."""
    rows = [
        pytest.param(error, *rest, id=f"{number}: {rest[0]}") for number, (error, *rest) in enumerate(table)
    ]
    return pytest.mark.parametrize(("error", "named", "use"), rows)


def words(named):
    """Return the words that a row of a table names: one, or several."""
    return named if isinstance(named, tuple) else (named,)
