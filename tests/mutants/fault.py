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


def _named(test, forms):
    return tuple(f"{test}[{form}]" for form in forms)


def neighbors(*forms):
    return _named("test_random_neighbors_never_exceed_the_sensitivity", forms)


def witness(*forms):
    return _named("test_the_witness_attains_the_sensitivity", forms)


def law(*forms):
    return _named("test_noise_and_selections_follow_their_declared_laws", forms)


def order(*forms):
    return _named("test_noise_is_drawn_after_the_charge", forms)


def certified(*forms):
    return _named("test_certified_epsilon", forms)


def batch(*forms):
    return _named("test_a_batch_equals_a_loop", [f"True-{form}" for form in forms])


def replayed(*forms):
    test = "test_the_answer_is_made_of_the_releases"
    return _named(test, [f"1.0-{form}" for form in forms])


def hardened(*forms):
    test = "test_noise_covers_what_a_row_moves_on_the_grid"
    return _named(test, forms)


def hardened_law(*forms):
    test = "test_what_a_hardened_run_publishes_follows_the_research_law"
    return _named(test, forms)
