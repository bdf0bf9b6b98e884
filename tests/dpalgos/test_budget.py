import numpy as np
import pytest

from dpalgos.accounting.budget import Budget, concentrated_rho
from dpalgos.accounting.composition import certified_epsilon, common_relation, renyi_epsilon
from dpalgos.accounting.events import BoundedRangeEvent, GaussianEvent, PureEvent, Relation
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.accounting.pld import Cost, pld_epsilon
from dpalgos.errors import InputError

EPSILON, DELTA = 0.5, 1e-5


def gaussian(z, count=1, relation=Relation.CENTRAL):
    return GaussianEvent(label="g", noise_multiplier=z, l2_sensitivity=1.0, count=count, relation=relation)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [(0.5, 1e-5, 0.00851), (0.2, 1 / 80000, 0.00161), (1.0, 1e-5, 0.03056), (0.5, 10 / 120**1.1, 0.07703)],
)
def test_rho_reference_values(epsilon, delta, rho):
    assert concentrated_rho(epsilon, delta) == pytest.approx(rho, rel=2e-3)


def test_a_gaussian_split_spends_exactly_the_budget():
    budget = Budget(epsilon=EPSILON, delta=DELTA, shares={"range": 0.1, "fit": 0.9})
    events = [gaussian(budget.gaussian_multiplier("range"))]
    events += [gaussian(budget.gaussian_multiplier("fit", releases=7))] * 7
    assert 0.999 * EPSILON <= certified_epsilon(events, DELTA) <= EPSILON
    assert budget.gaussian_multiplier("range") == pytest.approx(
        noise_multiplier(EPSILON, DELTA) / np.sqrt(0.1)
    )


def test_a_mixed_split_stays_within_the_budget():
    budget = Budget(epsilon=EPSILON, delta=DELTA, shares={"select": 0.4, "fit": 0.6}, gaussian=False)
    events = [
        BoundedRangeEvent(
            label="s", epsilon=budget.selection_epsilon("select", 20), sensitivity=1.0, count=20
        ),
        gaussian(budget.gaussian_multiplier("fit", 3), count=3),
    ]
    assert 0.9 * EPSILON < certified_epsilon(events, DELTA) <= EPSILON


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shares": {"a": 0.6, "b": 0.6}}, "shares must sum to 1, got 1.2"),
        ({"shares": {"a": 0.6, "b": 0.3}}, "shares must sum to 1, got 0.9"),
        ({"shares": {"a": 0.0}}, "the share of 'a' must be above 0"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"failure": 1e-4}, "failure must lie in"),
    ],
)
def test_impossible_splits(changes, message):
    with pytest.raises(InputError, match=message):
        Budget(**{"epsilon": EPSILON, "delta": DELTA, "shares": {"a": 1.0}, **changes})


def test_a_gaussian_budget_has_no_selections():
    budget = Budget(epsilon=EPSILON, delta=DELTA, shares={"a": 1.0})
    with pytest.raises(InputError, match="gaussian=False"):
        budget.selection_epsilon("a")
    with pytest.raises(InputError, match="part must be one of a"):
        budget.gaussian_multiplier("b")


def test_different_relations_do_not_compose():
    mixture = [gaussian(10.0), gaussian(10.0, relation=Relation.USER)]
    with pytest.raises(
        InputError, match="one neighboring relation, got replace-one row and replace-one user"
    ):
        certified_epsilon(mixture, DELTA)
    assert common_relation([gaussian(1.0)]) is Relation.CENTRAL
    assert common_relation([]) is None


def test_the_better_bound_wins():
    events = [gaussian(10.0), PureEvent(label="p", epsilon=0.1, sensitivity=1.0)]
    by_losses = pld_epsilon((Cost("gaussian", 10.0, 1), Cost("pure", 0.1, 1)), DELTA)
    assert certified_epsilon(events, DELTA) == min(by_losses, renyi_epsilon(events, DELTA))
    many = [PureEvent(label="p", epsilon=1e-3, sensitivity=1.0, count=1000)]
    assert certified_epsilon(many, DELTA) < 1.0


def test_losses_agree_with_the_closed_form():
    for z, count in ((47.3, 50), (5.0, 1), (1.0, 3)):
        closed = certified_epsilon([gaussian(z, count)], DELTA)
        assert closed <= pld_epsilon((Cost("gaussian", z, count),), DELTA) <= closed * 1.002


def test_losses_of_pure_events_are_rounded_once_for_all_of_a_kind():
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    for epsilon, count in ((0.02, 400), (0.3, 7)):
        fine = pld.from_privacy_parameters(DifferentialPrivacyParameters(epsilon), 2e-6).self_compose(count)
        exact = fine.get_epsilon_for_delta(DELTA)
        assert exact * (1 - 1e-9) - 2e-6 * count <= pld_epsilon((Cost("pure", epsilon, count),), DELTA)
        assert pld_epsilon((Cost("pure", epsilon, count),), DELTA) <= exact + 2e-4


def test_gaussian_releases_beside_others_count_as_one():
    pure = PureEvent(label="p", epsilon=0.01, sensitivity=1.0, count=3)
    apart = certified_epsilon([gaussian(20.0, 4), gaussian(15.0, 9), pure], DELTA)
    assert apart == certified_epsilon([gaussian((4 / 400 + 9 / 225) ** -0.5), pure], DELTA)
    assert certified_epsilon([gaussian(0.0), pure], DELTA) == np.inf


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3])
def test_tiny_budgets_have_a_rho(epsilon):
    assert 0 < concentrated_rho(epsilon, 1e-9) < 1e-3
