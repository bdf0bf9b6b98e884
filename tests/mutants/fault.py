"""A planted fault, and short names of the tests that must see it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A change of one function that tests must see; the tables give it a name, which says what is wrong then.

    Attributes
    ----------
    file : str
        Its path in the project.
    place : str
        Qualified name of a function, a method or a constant of the file.
    changes : mapping of str to str
        New text by old text, which stands there once; one after the other.
    tests : str or tuple of str
        Names of tests, or of files of tests, of the fast suite; one must fail.
    """

    file: str
    place: str
    changes: Mapping[str, str]
    tests: str | tuple[str, ...]


def _of_forms(test, first=""):
    """Return a function of forms: the names of a test's variants."""
    return lambda *forms: tuple(f"{test}[{first}{form}]" for form in forms)


neighbors = _of_forms("test_random_neighbors_never_exceed_the_sensitivity")
witness = _of_forms("test_the_witness_attains_the_sensitivity")
law = _of_forms("test_noise_and_selections_follow_their_declared_laws")
order = _of_forms("test_noise_is_drawn_after_the_charge")
certified = _of_forms("test_certified_epsilon")
batch = _of_forms("test_a_batch_equals_a_loop", "True-")
replayed = _of_forms("test_the_answer_is_made_of_the_releases", "1.0-")
hardened = _of_forms("test_noise_covers_what_a_row_moves_on_the_grid")
hardened_law = _of_forms("test_what_a_hardened_run_publishes_follows_the_research_law")
