"""Plans and forecasts of public numbers are the stored ones; their modules store what changed."""

from tests.golden import forecasts, plans


def test_each_form_of_an_estimator_has_its_stored_plans():
    """A share, a number of steps or a threshold that changed is seen also at sizes that no fit has here."""
    known, found = plans.stored(), dict(plans.plans())
    assert list(found) == list(known)
    assert [key for key in found if not plans.is_same(found[key], known[key])] == []


def test_forecasts_choose_the_stored_settings():
    found, known = list(forecasts.forecasts()), forecasts.stored()
    assert [key for *key, _ in found] == [key for *key, _ in known]
    both = zip(found, known, strict=True)
    assert [one[:3] for one, other in both if not forecasts.is_same(one[3], other[3])] == []
