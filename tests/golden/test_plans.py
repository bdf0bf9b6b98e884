"""Plans of public numbers are the stored ones; ``tests.golden.plans`` stores what changed."""

from tests.golden import plans


def test_each_form_of_an_estimator_has_its_stored_plans():
    """A share, a number of steps or a threshold that changed is seen also at sizes that no fit has here."""
    known, found = plans.stored(), dict(plans.plans())
    assert list(found) == list(known)
    assert [key for key in found if not plans.is_same(found[key], known[key])] == []
