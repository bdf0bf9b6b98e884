"""A plan is spent as it was made: every release once, with its noise, its event and its declared lemma."""

import numpy as np
import pytest

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import Cube, Laplace, SampledGaussian, Selection, Sketch, failure
from dpalgos.audit.trials import RecordingSpend
from dpalgos.core.other_plans import concentrated_plan, laplace_plan, least_noise_plan, replan
from dpalgos.core.plans import Share, gaussian_plan, planned_events, quantity
from dpalgos.mechanisms.sensitivity import ball_mean, ball_sum, count, outer_product_sum
from dpalgos.release.noise_source import Noise, NoNoise
from dpalgos.rows.symmetric import svec, unsvec
from dpalgos.tuning.threshold_search import search

LEMMAS = {"sum": (ball_sum,), "gram": (outer_product_sum,), "above": (count,), "other": (ball_sum,)}
N_DRAWS = 4000
SUM = ball_sum.of(np.array([3.0, 4.0]), 1.0)


def spending(plan, n_replicates=1, noise=Noise):
    spend = RecordingSpend(noise(np.random.default_rng(0).spawn(n_replicates)))
    return spend.start(plan, LEMMAS, is_batch=n_replicates > 1)


def test_a_release_has_its_planned_noise_event_and_standard_deviation():
    spend = spending({"sum": Gaussian(0.5)})
    released, std = spend("sum", SUM)
    (event,) = spend.record.events
    assert (event.label, event.noise_multiplier, event.sensitivity) == ("sum", 0.5, 2.0)
    assert released.shape == (2,)
    assert float(std) == 1.0
    spend.check_complete()


@pytest.mark.parametrize(
    "slot", [Gaussian(0.7), Laplace(0.7), Cube(0.7)], ids=lambda slot: type(slot).__name__
)
def test_the_noise_of_a_slot_has_the_stated_standard_deviation(slot):
    spend = spending({"sum": slot}, N_DRAWS)
    released, std = spend("sum", ball_sum.of(np.full((1, 3), 3.0), 1.5))
    np.testing.assert_allclose(np.std(released - 3.0, axis=0), np.mean(std), rtol=0.06)


def test_a_batch_equals_single_runs_and_noise_follows_each_sensitivity():
    plan = {"sum": Laplace(2.0), "gram": Gaussian(1.0)}
    spend = spending(plan, 3)
    values = np.arange(6.0).reshape(3, 2)
    batch = spend("sum", ball_sum.of(values, np.array([1.0, 2.0, 3.0])))
    grams = np.array([[2.0, 1.0], [1.0, 3.0]]) * np.arange(1, 4)[:, None, None]
    matrices = spend.symmetric("gram", outer_product_sum.of(grams, 1.0)).value
    for r, rng in enumerate(np.random.default_rng(0).spawn(3)):
        single = RecordingSpend(Noise([rng])).start(plan, LEMMAS)
        np.testing.assert_array_equal(single("sum", ball_sum.of(values[r], 1.0 + r)).value, batch.value[r])
        alone = single.symmetric("gram", outer_product_sum.of(grams[r], 1.0))
        np.testing.assert_array_equal(alone.value, matrices[r])
    np.testing.assert_allclose(batch.std, np.sqrt(2) * np.array([1.0, 2.0, 3.0]))


def test_a_symmetric_matrix_is_released_by_the_isometry_svec():
    spend = spending({"gram": Gaussian(1.0)})
    gram = np.array([[2.0, 1.0], [1.0, 3.0]])
    released = spend.symmetric("gram", outer_product_sum.of(gram, 1.0)).value
    (release,) = spend.releases
    np.testing.assert_allclose(release.value, svec(gram[None]))
    np.testing.assert_allclose(released, unsvec(release.published, 2)[0])


@pytest.mark.parametrize("planned", [0, 1, 3])
def test_a_planned_release_beyond_the_plan_is_refused(planned):
    spend = spending({"sum": Gaussian(1.0, times=planned)})
    for _ in range(planned):
        spend("sum", SUM)
    with pytest.raises(RuntimeError, match="exceeds the plan"):
        spend("sum", SUM)
    with pytest.raises(RuntimeError, match="exceeds the plan"):
        spend("gram", SUM)
    assert len(spend.releases) == planned


def test_a_run_without_a_planned_release_is_refused():
    spend = spending({"sum": Gaussian(1.0, times=2)})
    spend("sum", SUM)
    with pytest.raises(RuntimeError, match=r"not made.*'sum': 1"):
        spend.check_complete()


FIRST = {"sum": Share(0.25, 3), "gram": Share(0.75)}


def after_three_sums():
    spend = spending(gaussian_plan(2.0, 1e-6, FIRST))
    for _ in range(3):
        spend("sum", SUM)
    return spend


@pytest.mark.parametrize("times", [1, 2, 7])
def test_a_plan_made_after_a_release_costs_the_declared_budget(times):
    """Whatever the other releases are: the cost in μ² is that of the budget."""
    spend = after_three_sums()
    replan(spend, gaussian_plan(2.0, 1e-6, {"sum": Share(0.25, 3), "other": Share(0.75, times)}))
    for _ in range(times):
        spend("other", SUM)
    spend.check_complete()
    assert 1.99 < certified_epsilon(spend.record.events, 1e-6) <= 2.0


@pytest.mark.parametrize(
    "shares",
    [
        {"sum": Share(0.25 / 3), "other": Share(1 - 0.25 / 3)},  # the same noise, less often
        {"sum": Share(0.2, 3), "other": Share(0.8)},  # more noise than was added
        {"other": Share(1.0)},
    ],
)
def test_a_plan_made_after_a_release_cannot_exceed_the_budget(shares):
    spend = after_three_sums()
    first = dict(spend.plan)
    with pytest.raises(RuntimeError, match="was made as"):
        replan(spend, gaussian_plan(2.0, 1e-6, shares))
    with pytest.raises(RuntimeError, match="the first one"):
        replan(spend, first | {"other": Gaussian(1000.0)})
    with pytest.raises(TypeError, match="not as Gaussian"):
        replan(spend, first | {"other": Laplace(1e-9)})
    assert len(spend.record.events) == 3


def test_a_sensitivity_of_another_lemma_is_refused():
    spend = spending({"sum": Gaussian(1.0), "gram": Gaussian(1.0)})
    for label, query in (("sum", ball_mean.of(np.ones(2), 1.0, 10)), ("gram", SUM)):
        with pytest.raises(RuntimeError, match="declared lemma"):
            spend(label, query)
    assert not spend.releases


def test_another_form_is_released_in_the_place_of_a_slot_only_if_the_plan_names_it():
    plan = {"sum": Gaussian(1.0, times=2, forms=("other",))}
    spend = spending(plan)
    spend("sum", SUM, form="other")
    with pytest.raises(RuntimeError, match="exceeds the plan"):
        spend("sum", SUM, form="gram")
    spend("sum", SUM)
    spend.check_complete()
    assert [event.label for event in spend.record.events] == ["other", "sum"]


def test_a_number_at_the_end_of_a_label_is_no_part_of_the_quantity():
    assert [quantity(label) for label in ("sum", "sum 3", "X'X", "s2")] == ["sum", "sum", "X'X", "s2"]
    spend = spending({"sum 0": Gaussian(1.0), "sum 1": Gaussian(2.0, group=4)})
    for label in spend.plan:
        spend(label, SUM)
    told = [(event.label, event.noise_multiplier, event.group) for event in spend.record.events]
    assert told == [("sum", 1.0, None), ("sum", 2.0, 4)]


def test_a_search_finds_the_first_candidate_that_few_rows_exceed():
    above = np.array([[9.0, 7.0, 2.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0, 9.0]])
    spend = spending({"above": Gaussian(1.0, times=3)}, noise=NoNoise)
    np.testing.assert_array_equal(search(spend, "above", above, 3.0), [2, 4])
    spend.check_complete()
    assert all(event.sensitivity == pytest.approx(np.sqrt(2)) for event in spend.record.events)
    batch = spending({"above": Gaussian(1.0, times=3)}, 2, NoNoise)
    np.testing.assert_array_equal(
        search(batch, "above", np.stack([above, above[::-1]]), 3.0), [[2, 4], [4, 2]]
    )


def test_the_events_of_a_plan_are_those_of_its_run():
    shares = {"sum": Share(0.2, times=3), "gram": Share(0.8)}
    plan = gaussian_plan(0.7, 1e-6, shares)
    planned = planned_events(plan)
    assert certified_epsilon(planned, 1e-6) == pytest.approx(0.7, rel=1e-9)
    spend = spending(plan)
    for _ in range(3):
        spend("sum", SUM)
    spend.symmetric("gram", outer_product_sum.of(np.eye(2), 1.0))
    made = [(type(e), e.label, e.noise_multiplier, e.n_charges) for e in spend.record.events]
    assert made == [(type(e), e.label, e.noise_multiplier, e.n_charges) for e in planned]


def test_the_plan_of_disjoint_groups_costs_as_much_as_one_of_them():
    plan = {f"sum {group}": Gaussian(2.0, times=3, group=group) for group in range(5)}
    alone = planned_events({"sum": Gaussian(2.0, times=3)})
    assert certified_epsilon(planned_events(plan), 1e-6) == certified_epsilon(alone, 1e-6)


def test_each_kind_of_slot_states_its_cost():
    assert Cube(0.5).once("v").pure_epsilon == 0.5
    assert Laplace(0.5, count=4).once("v").pure_epsilon == 2.0
    assert Laplace(0.5, count=4).once("v").norm == np.inf
    assert Selection(0.5, count=3).once("v").rho == pytest.approx(3 * 0.5**2 / 8)
    sketch = Sketch(n_rows=7, ridge=50.0).once("v", 4.0)
    assert isinstance(sketch, Sketch)
    assert (sketch.n_rows, sketch.ridge, sketch.sensitivity) == (7, 50.0, 4.0)
    missed = failure(1e-9).once("failure")
    assert (missed.label, missed.failure) == ("failure", 1e-9)


def test_a_selection_is_that_of_one_gumbel_vector_in_a_batch_and_alone():
    plan = {"scores": Selection(0.7, count=2, by_magnitude=True)}
    lemmas = {"scores": (ball_sum,)}
    scores = np.array([[9.0, -8.0, 1.0, 0.0], [0.0, 1.0, -7.0, 5.0]])
    spend = RecordingSpend(Noise(np.random.default_rng(0).spawn(2))).start(plan, lemmas, is_batch=True)
    batch = spend.choose("scores", ball_sum.of(scores, 0.01))
    np.testing.assert_array_equal(batch, [[0, 1], [2, 3]])
    (event,) = spend.record.events
    assert (event.epsilon, event.count, event.sensitivity) == (0.7, 2, 0.02)
    for r, rng in enumerate(np.random.default_rng(0).spawn(2)):
        single = RecordingSpend(Noise([rng])).start(plan, lemmas)
        np.testing.assert_array_equal(single.choose("scores", ball_sum.of(scores[r], 0.01)), batch[r])
    with pytest.raises(RuntimeError, match="declared lemma"):
        single.start(plan, lemmas).choose("scores", ball_mean.of(scores[0], 1.0, 5))


def test_entries_that_are_charged_one_by_one_are_all_charged():
    plan = {
        "sum": Laplace(0.5, count=2),
        "above": Selection(1.0, count=2, by_magnitude=True, by="peeling"),
        "other": Laplace(0.5, count=1),
    }
    spend = spending(plan)
    released, std = spend("sum", SUM)
    support = spend.choose("above", count.of(np.array([0.0, -1e9, 1e6])))
    assert support.tolist() == [1, 2]  # by magnitude, in order
    assert [(each.count, each.norm) for each in spend.record.events] == [(2, np.inf), (2, np.inf)]
    assert (released.shape, float(std)) == ((2,), pytest.approx(np.sqrt(2) * 2.0 / 0.5))
    assert planned_events(plan)[0].renyi(np.array([2.0])) == spend.record.events[0].renyi(np.array([2.0]))
    spend = spending({"sum": Laplace(0.5, count=2)})
    with pytest.raises(RuntimeError, match="planned for 2 entries, got 3"):
        spend("sum", ball_sum.of(np.zeros(3), 1.0))
    assert spend.releases == []


def test_a_mechanism_that_costs_more_than_its_slot_is_refused():
    """It is charged as the slot, and draws after the charge."""
    ones = np.ones((3, 1))
    spend = spending({"sum": Gaussian(2.0), "other": Gaussian(2.0, times=2)})
    drawn = spend.release("sum", ones, lambda: len(spend.record.events) * ones, sensitivity=7.0)
    np.testing.assert_array_equal(drawn, ones)
    with pytest.raises(RuntimeError, match="must be charged as"):
        spend.release("other", ones, lambda: ones, proved=Gaussian(1.99).once("sum"))
    spend.release("other", ones, lambda: ones, proved=Gaussian(2.0).once("sum"))
    charged = [(event.label, event.noise_multiplier, event.sensitivity) for event in spend.record.events]
    assert charged == [("sum", 2.0, 7.0), ("other", 2.0, 1.0)]


def test_rows_that_are_drawn_are_released_as_such_alone():
    """Their charge is that of a secret sample: without the draw it is too low."""
    spend = spending({"sum": SampledGaussian(2.0, sampling_rate=0.1), "other": Gaussian(2.0)})
    with pytest.raises(TypeError, match="adds no noise to a query"):
        spend("sum", SUM)
    with pytest.raises(TypeError, match="not as SampledGaussian"):
        spend.of_drawn_rows("other", np.transpose, np.ones((2, 1), dtype=bool), 1.0)
    assert not spend.record.events


def test_the_smallest_noise_of_a_mixed_plan_proves_its_budget():
    slots = Selection(1.0), Selection(1.0, times=2), Gaussian(1.0)
    shares = dict(zip(("choice 0", "choice 1", "v"), zip((0.9, 0.05, 0.05), slots, strict=True), strict=True))
    plan = concentrated_plan(1.0, 1e-6, shares)
    rho = [sum(event.rho for event in planned_events({label: slot})) for label, slot in plan.items()]
    np.testing.assert_allclose(rho, np.array([0.9, 0.05, 0.05]) * concentrated_rho(1.0, 1e-6))
    least = least_noise_plan(1.0, 1e-6, plan)
    assert certified_epsilon(planned_events(plan), 1e-6) < 0.8
    assert 0.998 <= certified_epsilon(planned_events(least), 1e-6) <= 1
    ratio = plan["v"].noise_multiplier / least["v"].noise_multiplier
    assert ratio > 1.3
    assert least["choice 0"].epsilon == pytest.approx(ratio * plan["choice 0"].epsilon)
    assert least["choice 1"] == Selection(least["choice 1"].epsilon, times=2)


def test_laplace_releases_share_an_epsilon():
    plan = laplace_plan(0.9, {"a": Share(1 / 3, times=2), "b": Share(2 / 3)})
    total = sum(event.pure_epsilon for event in planned_events(plan))
    assert 0.9 * (1 - 1e-9) <= total <= 0.9
