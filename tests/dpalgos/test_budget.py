"""A budget over several answers: what it sums, what it withholds, and that no two answers share noise."""

import copy
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputRegressor

import dpalgos
from dpalgos import Budget, InputError
from dpalgos.release.noise_source import Noise
from dpalgos.sklearn import DPBoundedMean, DPLinearRegression
from tests.builders import refused

RUN = dpalgos.api.run_estimator
ASKED = {"epsilon": 0.5, "delta": 1e-7}


def mean(budget=None, epsilon=1.0, delta=1e-6, rng=None, **settings):
    X = np.linspace(0, 1, 2000)[:, None]
    rng = np.random.default_rng() if rng is None else rng
    settings = {"lower": 0.0, "upper": 1.0, "rng": rng, "budget": budget, **settings}
    return dpalgos.estimate("box_mean", X, epsilon=epsilon, delta=delta, **settings)


def table(n=300):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ [1.0, -0.5, 0.0] + 0.1 * rng.standard_normal(n)


def test_a_budget_sums_calls_and_withholds_what_exceeds_it():
    budget = Budget(epsilon=1.5, delta=1e-6)
    mean(budget, epsilon=0.7)
    assert budget.spent_epsilon == pytest.approx(0.7, rel=1e-4)
    mean(budget, epsilon=0.7)
    refused(lambda: mean(budget, epsilon=0.7), InputError, "1.5 ", " withheld")
    spent = budget.spent_epsilon
    assert 0.7 < spent <= 1.4 + 1e-9
    mean()
    assert budget.spent_epsilon == spent
    whole = Budget(epsilon=1.0, delta=1e-6)
    mean(whole, noise="gaussian")
    assert whole.spent_epsilon == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", 100.0), ("delta", 0.1), ("relation", None), ("failure_delta", 0.0)]
)
def test_a_budget_cannot_be_changed(name, value):
    budget = Budget(epsilon=1.5, delta=1e-6)
    for charged in (False, True):
        if charged:
            mean(budget, epsilon=1.0)
        refused(lambda: setattr(budget, name, value), InputError, name, "another")
        refused(lambda: delattr(budget, name), InputError, name)
        refused(lambda: setattr(budget, "_answers", []), InputError, "_answers")
    refused(lambda: mean(budget, epsilon=1.0), InputError, "1.5")


def test_bounds_that_are_too_far_from_one_are_refused_before_a_charge():
    X, y = table()
    budget = Budget(epsilon=1.5, delta=1e-6)
    for units in ({"bounds": (0, 1e-100)}, {"y_bounds": (-1e200, 1e200)}):
        model = DPLinearRegression(**ASKED, **units, interval=0.9, budget=budget)
        refused(lambda model=model: model.fit(X, y), InputError, "bounds", "1e+30")
    assert budget.spent_epsilon == 0


def test_an_answer_that_ends_in_an_error_stays_charged(monkeypatch):
    def failing_run(*arguments):
        RUN(*arguments)
        raise ArithmeticError("after the noise was drawn")

    budget = Budget(epsilon=1.5, delta=1e-6)
    monkeypatch.setattr(dpalgos.api, "run_estimator", failing_run)
    with pytest.raises(ArithmeticError):
        mean(budget)
    assert budget.spent_epsilon == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(InputError, match=r"withheld") as failed:
        mean(budget)
    monkeypatch.setattr(dpalgos.api, "run_estimator", RUN)
    with pytest.raises(InputError) as refused:
        mean(budget)
    assert str(failed.value) == str(refused.value)
    assert budget.spent_epsilon == pytest.approx(1.0, rel=1e-3)


def answers_or_not(budget):
    try:
        return mean(budget) is not None
    except InputError:
        return False


def test_a_budget_counts_in_every_thread():
    budget = Budget(epsilon=1.5, delta=1e-6)
    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(answers_or_not, [budget] * 40))
    assert sum(answered) == 1
    assert budget.spent_epsilon == pytest.approx(1.0, rel=0.01)


def test_a_copy_is_the_budget_and_a_pickle_is_refused():
    budget = Budget(epsilon=9.0, delta=1e-6)
    assert copy.copy(budget) is copy.deepcopy({"of": budget})["of"] is budget
    model = DPBoundedMean(**ASKED, lower=-1.0, upper=1.0, budget=budget)
    assert clone(model).budget is budget
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(InputError, match="budget"):
            pickle.dumps(model, protocol)
    fitted = pickle.loads(pickle.dumps(model.fit(table()[0]).set_params(budget=None)))
    np.testing.assert_array_equal(fitted.mean_, model.mean_)


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_budget_is_not_sent_to_another_process(start):
    budget = Budget(epsilon=9.0, delta=1e-6)
    with ProcessPoolExecutor(1, multiprocessing.get_context(start)) as pool:
        assert isinstance(pool.submit(answers_or_not, budget).exception(), InputError)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_answer_from_its_copy():
    budget = Budget(epsilon=9.0, delta=1e-6)
    child = os.fork()
    if child == 0:
        os._exit(answers_or_not(budget))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def put_back():
    rng, other = np.random.default_rng(4), np.random.default_rng()
    other.bit_generator.state = rng.bit_generator.state
    return rng, other


def later():
    """Return a generator in the middle of what another one draws, and that one."""
    rng = np.random.default_rng(0)
    rng.random(64)
    return np.random.default_rng(0), rng


def of_bits(*bits):
    return [np.random.Generator(each) for each in bits]


REPEATED = {
    "one seed twice": lambda: (np.random.default_rng(0), np.random.default_rng(0)),
    "a copy": lambda: (lambda rng: (copy.deepcopy(rng), rng))(np.random.default_rng(0)),
    "a state put back": put_back,
    "children of one seed": lambda: [np.random.default_rng(0).spawn(1)[0] for _ in range(2)],
    "one seed sequence": lambda: [np.random.default_rng(np.random.SeedSequence(3)) for _ in range(2)],
    "another bit generator": lambda: of_bits(np.random.MT19937(1), np.random.MT19937(1)),
}


@pytest.mark.parametrize("generators", REPEATED)
def test_a_state_that_an_answer_began_with_is_refused(generators):
    budget = Budget(epsilon=9.0, delta=1e-6)
    first, second = REPEATED[generators]()
    mean(budget, rng=first)
    refused(lambda: mean(budget, rng=second), InputError, "rng")
    assert budget.spent_epsilon == pytest.approx(1.0, rel=1e-3)


OVERLAPPING = {
    "drawn from before": later,
    "advanced": lambda: of_bits(np.random.PCG64(0), np.random.PCG64(0).advance(4)),
    "a counter of one key": lambda: of_bits(*(np.random.Philox(key=1, counter=k) for k in range(2))),
}


@pytest.mark.parametrize("generators", OVERLAPPING)
def test_streams_that_overlap_give_no_noise_in_common(generators, monkeypatch):
    drawn, fresh = [], Noise._fresh

    def noted(self, kind, count):
        noise = fresh(self, kind, count)
        drawn[-1].update(noise.ravel())
        return noise

    monkeypatch.setattr(Noise, "_fresh", noted)
    budget = Budget(epsilon=9.0, delta=1e-6)
    for rng in OVERLAPPING[generators]():
        drawn.append(set())
        mean(budget, rng=rng)
    one, other = drawn
    assert one
    assert not one & other


def test_one_seed_gives_each_answer_its_own_noise():
    budget, state = Budget(epsilon=9.0, delta=1e-6), np.random.default_rng(0).bit_generator.state
    rng, draws = np.random.default_rng(), []
    for number in range(3):
        rng.bit_generator.state = state
        budget._seeds[:] = [bytes([other]) for other in range(number)]  # as if the state were not known
        draws.append(budget.own_generator(rng).random())
    assert len(set(draws)) == 3


def test_one_generator_gives_many_answers_which_can_be_repeated():
    def means():
        budget, rng = Budget(epsilon=9.0, delta=1e-6), np.random.default_rng(0)
        return [float(mean(budget, rng=rng).estimate[0]) for _ in range(3)]

    assert means() == means()
    assert len(set(means())) == 3


def fitted(random_state, **settings):
    model = DPLinearRegression(**ASKED, random_state=random_state, **settings)
    X, y = table()
    return MultiOutputRegressor(model).fit(X, np.column_stack([y, y]))


STATES = [0, np.int64(3), np.random.RandomState(0), np.random.default_rng(0)]


@pytest.mark.filterwarnings("ignore::dpalgos.errors.PrivacyWarning")
@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_fits_within_a_budget_may_not_share_a_random_state(state):
    refused(lambda: fitted(state, budget=Budget(epsilon=9.0, delta=1e-6)), InputError, "random_state")
    if not isinstance(state, np.random.Generator):  # one fit alone is refused, too
        alone = DPLinearRegression(**ASKED, random_state=state, budget=Budget(epsilon=9.0, delta=1e-6))
        refused(lambda: alone.fit(*table()), InputError, "random_state")
    one, other = fitted(None, budget=Budget(epsilon=9.0, delta=1e-6)).estimators_
    assert one.intercept_ != other.intercept_


@pytest.mark.filterwarnings("ignore::dpalgos.errors.PrivacyWarning")
def test_without_a_random_state_noise_is_not_that_of_a_global_one():
    fits = []
    for _ in range(2):
        np.random.seed(1)  # noqa: NPY002
        fits.append(fitted(None).estimators_[0].intercept_)
    assert fits[0] != fits[1]
    refused(lambda: fitted(-1), InputError, "random_state")


def test_cross_validation_is_warned_about_and_summed_by_a_budget():
    X, y = table(600)
    budget = Budget(epsilon=1.2, delta=1e-6)
    model = DPLinearRegression(epsilon=1.0, delta=1e-6, budget=budget)
    with pytest.warns() as caught:
        scores = cross_val_score(model, X, y, cv=3)
    assert np.isnan(scores).tolist() == [False, True, True]
    assert budget.spent_epsilon == pytest.approx(1.0)
    assert any("cross-validation" in str(each.message) for each in caught)
