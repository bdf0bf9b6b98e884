"""Every estimator that can be released: hardened noise has the research law, and covers what a row moves."""

from dataclasses import replace
from functools import cache, partial
from itertools import chain

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting import events as kinds
from dpalgos.accounting.budget import spending
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import Cube, Laplace, Selection
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingSpend
from dpalgos.core import hardened_noise as secure
from dpalgos.core.hardened_noise import SecureSpend
from dpalgos.hardened_release import check_data, draw_release, release_plan
from dpalgos.mechanisms.sensitivity import Bounded, count
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from tests.builders import refused
from tests.contract.forms import DRAWN, EVERY, FAMILIES, IDS, response, whose

BUDGET = {"epsilon": 2.0, "delta": 1e-4}
TIGHT, TIGHT_FAMILIES = ([e for e, c in forms if c == "tight"] for forms in (EVERY, FAMILIES))
DRAWN_TIGHT = [e for e, c in DRAWN if c == "tight"]


def sample_of(estimator, n=200, n_replicates=1, other=None):
    rng = np.random.default_rng(0)
    X = np.clip(rng.uniform(-1, 1, (n, 3)) + np.array([0.5, -0.5, 0.0]), -1, 1)
    y = np.clip(X @ [1.0, -0.5, 0.25], -1, 1)
    if other is not None:
        X[other], y[other] = -9.0, 9.0
    return Sample(X, response(estimator, y), n_replicates=n_replicates, user_ids=whose(estimator, n))


@cache
def rehearsed(estimator, n):
    n_users = n // 2 if estimator.relation is kinds.Relation.USER else None
    return release_plan(estimator.name, n, 3, {**estimator.example, **BUDGET}, n_users=n_users)


def planned(estimator, n=200):
    try:
        return rehearsed(estimator, n)
    except dpalgos.InputError as error:
        if "has no floating-point-safe sampler" not in str(error):
            raise
        pytest.skip(str(error))


# 1,000 Gaussian numbers of a release, or 2,500 others, show a factor of 1.2 in their standard deviation: it
# has a relative error of .023 at most, so that 1.1 is more than 4 of them away from 1, and 1.2 nearly 4 of
# them beyond, seen with probability .9999. As the stream is the same in every run, there is no false alarm.
TOLERANCE = 1.1


def seeded_samplers(monkeypatch, rng):
    """Put samplers of one stream in the place of the operating system's; their laws have a test below.

    Those of noise return as many draws as are pooled, one after the other.
    """

    def integers(n_pooled, noise):
        def add(index):
            n_draws = -(-n_pooled // len(index))
            return np.rint(np.asarray(index) + noise((n_draws, len(index)))).astype(int).ravel().tolist()

        return add

    def in_cube(scale, shape):
        return rng.gamma(shape[1] + 1, scale, (shape[0], 1)) * rng.uniform(-1, 1, shape)

    samplers = {
        "gaussian_sampler": lambda scale: integers(1000, lambda shape: rng.normal(0, scale, shape)),
        "laplace_sampler": lambda scale: integers(2500, lambda shape: rng.laplace(0, scale, shape)),
        "box_sampler": lambda scale, size: integers(2500, lambda shape: in_cube(scale, shape)),
        "top_k_sampler": lambda scale, k: (
            lambda index: np.argsort(-(np.asarray(index) + rng.gumbel(0, scale, len(index))))[:k].tolist()
        ),
    }
    for name, sampler in samplers.items():
        monkeypatch.setattr(secure, name, sampler)


class Pooled(SecureSpend):
    """Keeps the spread and the mean of the noise of each release, and publishes its first draw."""

    def __init__(self):
        super().__init__()
        self.published, self.spread, self.mean = [], [], []

    def _publish(self, value, draw):
        draws, noise = draw(), np.zeros(1)  # no noise of a selection
        if isinstance(self.record.events[-1], kinds.DiscreteGaussian | Laplace | Cube):
            draws = draws.reshape(-1, len(value)).T
            noise = draws - value
        self.spread.append(noise.std())
        self.mean.append(noise.mean())
        self.published.append(draws[:, :1])
        return draws[:, :1]


def research_std(event, size):
    """Return the standard deviation of an entry's noise; None of a selection."""
    if isinstance(event, kinds.Gaussian):
        return event.noise_multiplier * float(event.sensitivity)
    if isinstance(event, Cube):
        return np.sqrt((size + 1) * (size + 2) / 3) * float(event.sensitivity) / event.epsilon
    is_pure = isinstance(event, Laplace)
    return np.sqrt(2) * float(event.sensitivity) / event.epsilon if is_pure else None


@pytest.mark.parametrize("estimator", DRAWN_TIGHT, **IDS)
def test_what_a_hardened_run_publishes_follows_the_research_law(estimator, monkeypatch):
    """Each release has the noise that the research code charges given the same earlier releases."""
    plan = planned(estimator)
    seeded_samplers(monkeypatch, np.random.default_rng(0))
    hardened = Pooled()
    run_estimator(estimator, sample_of(estimator), plan.params, hardened)
    noise = Noise(np.random.default_rng(1).spawn(1))
    research = RecordingSpend(noise, script=hardened.published)
    run_estimator(estimator, sample_of(estimator), plan.params, research)
    n_checked = 0
    for release, std, mean in zip(research.releases, hardened.spread, hardened.mean, strict=True):
        (event,) = release.events
        if (expected := research_std(event, len(release.value))) is not None:
            assert 1 / TOLERANCE < std / expected < TOLERANCE, event.label
            assert abs(mean) < expected / 5, event.label
            n_checked += 1
    assert n_checked or all(isinstance(event, Selection) for event in hardened.record.events)


@pytest.mark.parametrize(
    ("kind", "scale"),
    [*((kind, scale) for kind in ("gaussian", "laplace", "box") for scale in (3.0, 1000.0)), ("top_k", 50.0)],
)
def test_integers_of_the_operating_system_follow_their_laws(kind, scale):
    """A false alarm in 10⁶ runs; a factor of 1.2 in the scale is seen in 999 of 1,000."""
    SecureSpend()  # lets the library of samplers make them
    if kind == "top_k":  # between two scores that differ by the scale
        select, n = secure.top_k_sampler(scale, 1), 16_000
        won = np.mean([select([round(scale), 0])[0] == 0 for _ in range(n)])
        assert abs(won - 1 / (1 + np.exp(-round(scale) / scale))) < 4.9 * np.sqrt(0.25 / n)
        return
    size = 1 if kind == "box" else 5000
    sampler = {
        "gaussian": lambda: secure.gaussian_sampler(scale)([7] * size),
        "laplace": lambda: secure.laplace_sampler(scale)([7] * size),
        "box": lambda: secure.box_sampler(scale, 3)([7] * 3),
    }[kind]
    draws = np.array([sampler() for _ in range(5000 // (3 if kind == "box" else size))]).ravel() - 7.0
    expected = scale * {"gaussian": 1.0, "laplace": np.sqrt(2), "box": np.sqrt(20 / 3)}[kind]
    assert abs(np.log(draws.std() / expected)) < 4.9 * np.sqrt(5 / 5000) / 2 + 0.02
    assert abs(draws.mean()) < 6 * expected / np.sqrt(2000)


class Grid(SecureSpend):
    """Keeps what each sampler was asked to hide and how well; adds no noise, or answers as before."""

    def __init__(self, monkeypatch, answers=(), inflation=1.0):
        super().__init__(inflation=inflation)
        self.asked, self.answers, self._script = [], [], list(answers)
        answering = lambda scale, k=None: partial(self.answer, scale, k)  # noqa: E731
        for name in ("gaussian_sampler", "laplace_sampler", "top_k_sampler"):
            monkeypatch.setattr(secure, name, answering)
        monkeypatch.setattr(secure, "box_sampler", lambda scale, size: answering(scale))

    def answer(self, scale, k, index):
        self.asked.append((self.record.events[-1], scale, np.array(index, dtype=float)))
        exact = index if k is None else np.argsort(-np.array(index))[:k].tolist()
        self.answers.append(self._script[len(self.answers)] if self._script else exact)
        return self.answers[-1]


@pytest.mark.parametrize("estimator", DRAWN_TIGHT, **IDS)
def test_noise_covers_what_a_row_moves_on_the_grid(estimator, monkeypatch):
    plan = planned(estimator)
    first = Grid(monkeypatch)
    run_estimator(estimator, sample_of(estimator), plan.params, first)
    for row in (0, 57, 199):
        second = Grid(monkeypatch, first.answers)
        run_estimator(estimator, sample_of(estimator, other=row), plan.params, second)
        for (event, scale, index), (_, _, other) in zip(first.asked, second.asked, strict=True):
            moved = np.abs(index - other)
            if isinstance(event, kinds.DiscreteGaussian):
                covered, norm = scale / event.noise_multiplier, np.linalg.norm(moved)
            elif isinstance(event, Cube):
                covered, norm = scale * event.epsilon, moved.max()
            elif isinstance(event, Laplace):
                covered, norm = scale * event.epsilon, moved.sum()
            else:  # a selection: Gumbel noise of twice what a score moves, over its ε
                covered, norm = scale * event.epsilon / 2, moved.max()
            assert norm <= covered * (1 + 1e-12), event.label
            assert covered < 2**14 * len(index) ** 0.5  # and is no more than a fine grid needs


@pytest.mark.parametrize("estimator", DRAWN_TIGHT, **IDS)
def test_a_release_costs_its_plan_which_proves_the_budget_and_nothing_decides_its_noise(estimator):
    plan = planned(estimator)
    assert 1 <= plan.inflation < 1.3
    assert 0.999 * BUDGET["epsilon"] <= plan.cost.epsilon(BUDGET["delta"]) <= BUDGET["epsilon"]
    first, second = (draw_release(plan, sample_of(estimator)) for _ in range(2))
    for each in (first, second):  # plans by a released total add the same numbers in another order
        assert spending(each.events).rho == pytest.approx(plan.cost.rho, rel=1e-12)
        assert spending(each.events).pure_epsilon == plan.cost.pure_epsilon
    assert (np.count_nonzero(first.estimate, axis=0) <= estimator.example.get("sparsity", np.inf)).all()
    if "coef" not in estimator.example and "candidates" not in estimator.example:
        # Two sparse estimates may be zero, but not twenty.
        others = (draw_release(plan, sample_of(estimator)).estimate for _ in range(20))
        assert any((first.estimate != other).any() for other in chain([second.estimate], others))


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "box", "choose", "choose_each"])
def test_inflation_widens_the_noise_by_what_it_lowers_the_cost(kind, monkeypatch):
    def drawn(inflation):
        grid, value = Grid(monkeypatch, inflation=inflation), np.full((2, 1), 0.5)
        if kind in RELEASES:
            released(grid, RELEASES[kind], value, 1.0)
        elif kind == "choose":
            selecting(grid, Selection(1.0)).choose("v", count.of(value[:, 0]))
        else:
            selecting(grid, Selection(1.0)).choose_each("v", count.of(value[:, None]), None)
        charged, scale, _ = grid.asked[0]
        return scale, charged.noise_multiplier if kind == "gaussian" else 1 / charged.epsilon

    (scale, cost), (inflated, lower_cost) = drawn(1.0), drawn(3.0)
    assert inflated == pytest.approx(3 * scale)
    assert lower_cost == pytest.approx(3 * cost)


def test_a_public_center_far_from_its_radius_is_covered(monkeypatch):
    """float64 resolves center + mean to 512 only: a row moved it by more than its noise covered."""
    estimator = dpalgos.get_estimator("clipped_mean")
    center, radius, n = 3e18, 131_200.0, 100
    params = build_params(estimator, {**BUDGET, "center": center, "clip_norm": radius})
    rows = np.full((n, 1), center)
    far = rows.copy()
    far[0], rows[0] = center + 1e6, center - 1e6
    first = Grid(monkeypatch)
    run_estimator(estimator, Sample(rows), params, first)
    second = Grid(monkeypatch, first.answers)
    run_estimator(estimator, Sample(far), params, second)
    (event, scale, index), (_, _, other) = first.asked[0], second.asked[0]
    covered = scale / event.noise_multiplier
    assert 0.99 * covered <= np.abs(index - other)[0] <= covered
    monkeypatch.undo()
    assert run_estimator(estimator, Sample(rows), params, SecureSpend())[0, 0] == pytest.approx(center)


RELEASES = {"gaussian": Gaussian(1.0), "laplace": Laplace(1.0), "box": Cube(1.0)}


@pytest.mark.parametrize(("kind", "norm"), [("gaussian", 2), ("laplace", 1), ("box", np.inf)])
def test_noise_covers_a_row_that_moves_as_far_as_it_may_and_the_rounding(kind, norm, monkeypatch):
    rng = np.random.default_rng(3)
    for _ in range(50):
        value, moved = rng.standard_normal((2, 3, 1))
        indices = []
        for each in (value, value + moved / np.linalg.norm(moved, norm, axis=0)):
            grid = Grid(monkeypatch)
            released(grid, RELEASES[kind], each, 1.0)
            ((event, scale, index),) = grid.asked
            indices.append(index)
        covered = scale / event.noise_multiplier if kind == "gaussian" else scale * event.epsilon
        assert 0.99 * covered < np.linalg.norm(indices[0] - indices[1], norm) <= covered


def selecting(spend, slot):
    return spend.start({"v": replace(slot, times=100)}, {"v": (count,)})


def noisy(spend, slot, value, sensitivity):
    """Release numbers (k, 1) with noise, and return the stated standard deviation, too."""
    return selecting(spend, slot).columns("v", Bounded(value, sensitivity, count.formula))


def released(*asked):
    return noisy(*asked).value


@pytest.mark.parametrize("kind", RELEASES)
def test_a_value_beyond_the_grid_is_refused_by_its_noisy_answer_alone(kind, monkeypatch):
    """A refusal by the value itself would tell two neighbors on both sides of the limit apart for sure."""
    limit = 2.0**40 * secure.grid_step(1.0, 1)
    asked = []
    for name in ("gaussian_sampler", "laplace_sampler", "box_sampler"):
        monkeypatch.setattr(secure, name, lambda *_: lambda index: asked.append(index) or [7])
    for value in (limit - 0.5, limit + 0.5, 1e30):
        found = released(SecureSpend(), RELEASES[kind], np.full((1, 1), value), 1.0)
        assert found[0, 0] == 7 * secure.grid_step(1.0, 1)
    below, above, far = (index for (index,) in asked)
    assert above == far == 2**40
    assert 0 < above - below <= 2**12


@pytest.mark.parametrize("kind", RELEASES)
def test_a_value_that_float64_cannot_resolve_on_the_grid_is_refused(kind):
    far, near = (
        partial(released, SecureSpend(), RELEASES[kind], np.full((1, 1), z), 1.0) for z in (3e9, 3e7)
    )
    refused(far, dpalgos.InputError, "sensitivity")
    near()


@pytest.mark.parametrize("top", [2.0**28, 2.0**30, 3e9, 1e300, np.inf])
@pytest.mark.parametrize("n_rows", [1, 2**28])
def test_a_selection_is_answered_whatever_its_scores(top, n_rows):
    """A refusal by a score alone would show a single row: selections have no noisy number to refuse by."""
    other = np.zeros(4)
    for scores in (np.full(4, top), np.full(4, -top), other):
        for by_magnitude in (True, False):
            spend = selecting(SecureSpend(n_rows=n_rows), Selection(1.0, by_magnitude=by_magnitude))
            assert spend.choose("v", count.of(scores)).shape == (1,)
        each = spend.choose_each("v", count.of(scores[:, None, None]), None)
        assert each.shape == (1, 1)
    if np.isfinite(top):
        other[2] = top
        assert spend.choose("v", count.of(other))[0] == 2


@pytest.mark.parametrize("n_rows", [2**28, 3 * 10**8, 10**9])
@pytest.mark.parametrize("kind", RELEASES)
def test_sums_over_many_rows_fit_the_grid_and_their_rounding_is_covered(kind, n_rows):
    """A mean of n entries in [0, 1] is at most n times its sensitivity 1/n."""
    spend = SecureSpend(n_rows=n_rows, n_blocks=n_rows >> 14)
    ones = released(spend, RELEASES[kind], np.ones((4, 1)), 1 / n_rows)
    assert np.abs(ones - 1).max() < 1e3 / n_rows
    step = secure.grid_step(1 / n_rows, 4, n_rows)
    moved = (1 / n_rows) * (1 + n_rows * (n_rows >> 14) * 2.0**-53)
    for slot, rounded in ((Gaussian(1.0), 4), (Cube(1.0), 2)):
        std = noisy(spend, slot, np.ones((4, 1)), 1 / n_rows).std
        assert std.item() >= (moved + rounded * step) * slot.unit_std(4)
    assert 1 / step <= 2**39


def test_selections_of_several_columns_are_charged_one_by_one():
    spend = selecting(SecureSpend(inflation=2.0), Selection(1.0, count=3))
    spend.choose_each("v", count.of(np.zeros((5, 3, 1))), None)
    assert [(one.count, one.epsilon) for one in spend.record.events] == [(3, 0.5)]


EXTREME_ROWS = {
    "zeros": lambda rng: np.zeros((60, 3)),
    "tiny": lambda rng: 1e-300 * rng.uniform(-1, 1, (60, 3)),
    "at the ends": lambda rng: 1e60 * rng.choice([-1.0, 1.0], (60, 3)),
    "one far away": lambda rng: np.where(np.arange(60)[:, None] == 3, 1e60, rng.uniform(-1, 1, (60, 3))),
}


@pytest.mark.parametrize("rows", EXTREME_ROWS)
@pytest.mark.parametrize("estimator", TIGHT + TIGHT_FAMILIES, **IDS)
@pytest.mark.filterwarnings("error")
def test_nothing_is_refused_or_said_by_what_rows_hold_once_a_plan_is_charged(estimator, rows):
    plan, X = planned(estimator, 60), EXTREME_ROWS[rows](np.random.default_rng(0))
    sample = Sample(X, response(estimator, X[:, 0]), user_ids=whose(estimator, 60))
    try:
        check_data(estimator, plan.params, sample)
    except dpalgos.InputError:  # before the charge
        return
    drawn = draw_release(plan, sample).estimate
    assert estimator.task == "sums" or drawn.shape[0] == 3


def test_hardened_bins_are_chosen_column_by_column():
    """Scores of all columns were one list, of which the largest were taken whatever their column."""
    X = np.random.default_rng(0).normal([50.0, -20.0, 0.0], 1.0, (2000, 3))
    keywords = {"epsilon": 5.0, "delta": 1e-6, "mean_bound": 100.0}
    for std_bounds in ((1.0, 1.0), (0.5, 4.0)):
        plan = release_plan("karwa_vadhan_mean", *X.shape, {**keywords, "std_bounds": std_bounds})
        for _ in range(5):
            answer = draw_release(plan, Sample(X)).estimate
            assert np.abs(answer - [50.0, -20.0, 0.0]).max() < 1.0
