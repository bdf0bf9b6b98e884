"""Audits: no alarm for what is private, an alarm for every planted fault."""

import json
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtr

import dpalgos
from dpalgos.accounting.events import Gaussian, Relation
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.accounting.other_events import Cube, Laplace, Selection
from dpalgos.api import build_params
from dpalgos.audit import attack
from dpalgos.audit.lower_bound import DrawnNoise, audit, audit_estimator
from dpalgos.audit.rates import gaussian_audit
from dpalgos.audit.trials import BatchNoise, ReleasedVector
from dpalgos.core import hardened_noise
from dpalgos.mechanisms.sensitivity import Bounded, count
from dpalgos.mechanisms.witnesses import shared_pairs
from dpalgos.user_level import user_level_selection
from dpalgos.user_level.user_level_selection import number_of_draws
from tests.contract.forms import IDS, PRIVATE
from tests.dpalgos.audit.faults import FAULTS, HalvedNoise, audit_toy, column_sums, released

private = pytest.mark.parametrize(("estimator", "calibration"), PRIVATE, **IDS)
faults = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}: {fault.estimator}")
QUICK = {"sheffet_ols": {"n_sketch_rows": 5}, "boosted_adassp": {"n_rounds": 5}}


def audited(estimator, calibration, seed, **options):
    settings = {**estimator.example, **QUICK.get(estimator.name, {})}
    options = {"epsilon": 2.0, "delta": 1e-5, **settings, **options}
    options["people"] = estimator.takes_people and estimator.relation is Relation.USER
    rng = np.random.default_rng(seed)
    return audit_estimator(estimator.name, calibration=calibration, rng=rng, **options)


@pytest.fixture
def few_comparisons(monkeypatch):
    """Pairs are compared by few runs: which one is attacked matters less than what is replayed."""
    monkeypatch.setattr(attack, "_COMPARISON_TRIALS", (10, 10))


SLOW = {"screened_sparse_glm", "binagg_regression"}  # every trial selects and fits, or halves boxes
AUDITED = [
    pytest.param(e, marks=[pytest.mark.slow] * (e.name in SLOW))
    for e in dpalgos.catalog()
    if e.private and e.protected
]


@pytest.mark.parametrize("estimator", AUDITED, ids=lambda estimator: estimator.name)
def test_no_false_alarm(estimator, few_comparisons):
    """Forms, families and calibrations, with trials for faults of the noise, are under the mark "audit"."""
    result = audited(estimator, estimator.calibrations[0], 0, n_trials=50)
    assert not result.violated, result
    assert result.epsilon_lower_bound <= result.certified_epsilon


@pytest.mark.audit
@private
def test_no_false_alarm_over_three_seeds(estimator, calibration):
    n_trials = 200 if getattr(estimator.parameters, "batch", False) is False else 1_000  # run by run
    n_trials = 100 if estimator.name in SLOW else n_trials
    assert not any(audited(estimator, calibration, seed, n_trials=n_trials).violated for seed in range(3))


@faults
def test_a_planted_fault_is_caught(fault):
    result = fault.audit()
    assert result.violated, result
    assert result.verdict == "violated"


def test_a_gaussian_release_is_audited_as_well_as_it_can_be():
    """The mean's witness attains its sensitivity: the bound is what theory says, give or take."""
    result = audited(dpalgos.get_estimator("dp_mean"), "tight", 1, n_trials=100_000)
    mu = 1 / noise_multiplier(2.0, 1e-5)
    assert 0.8 < result.epsilon_lower_bound / gaussian_audit(mu, 100_000, 1e-5, power=0.5) < 1.2
    assert result.detectable_fault == pytest.approx(1.761, abs=1e-2)


# Selections and others: the toys claim ε = 2 and are told to spend it all, or twice that.

D = 8
UP_AND_DOWN = np.array([[1.0] + [-1.0] * (D - 1)])


def choice(sample, params, spend, overspent=1):
    spend.start({"choice": Selection(params.epsilon)}, {"choice": (count,)}, is_batch=True)
    sums = column_sums(sample).T
    chosen = spend.choose("choice", Bounded(sums, np.asarray(1 / overspent), count.formula))
    return chosen.T.astype(float)


@pytest.mark.parametrize("overspent", [1, 2])
def test_an_exponential_mechanism_that_overspends_is_caught(overspent):
    choose = partial(choice, overspent=overspent)
    assert audit_toy(choose, (UP_AND_DOWN, -UP_AND_DOWN)).violated == (overspent > 1)


@pytest.mark.parametrize("noise", [BatchNoise, HalvedNoise])
def test_winners_of_selections_show_half_of_their_noise(noise):
    result = audit_toy(choice, (UP_AND_DOWN, -UP_AND_DOWN), n_trials=2000, noise=noise)
    assert result.noise_ratios == ({"choice": 0.75} if noise is HalvedNoise else {})
    assert result.violated == (noise is HalvedNoise)


@pytest.mark.parametrize("capped", [False, True])
def test_random_stopping_and_stopping_at_a_cap(capped, monkeypatch):
    """Scores 0, 1, 2 whose chances a neighbor moves by the ε of a score, the middle one the other way."""
    if capped:
        early = lambda *asked: min(number_of_draws(*asked), 50)  # noqa: E731
        monkeypatch.setattr(user_level_selection, "number_of_draws", early)

    def choose(sample, params, spend):
        each = params.epsilon / user_level_selection.SCORE_FACTOR
        moved = np.exp(each) if sample.X[0, 0] > 0 else 1.0
        best, middle = 0.07 * moved, 0.05 / moved

        def scores(which, noise):
            uniforms = ndtr(noise.normal(len(which)))[:, 0]
            return np.digitize(uniforms, [best, best + middle]).astype(float)

        spend.start({"choice": user_level_selection.cost(each)}, {})
        stop = 1e-5 if capped else 1 / 100
        draw = partial(user_level_selection.stopped_at_random, spend.noise, 1, scores, stop_probability=stop)
        return spend.release("choice", np.zeros((1, sample.n_replicates)), draw)

    result = audit_toy(choose, ([[-1.0]], [[1.0]]), n_trials=10_000)
    assert result.claimed_epsilon == pytest.approx(2.0, rel=1e-3)
    assert result.violated == capped, result


def released_sum(sample, params, spend, added=0.0):
    z = noise_multiplier(params.epsilon, params.delta)
    value = column_sums(sample) + added
    return released(spend, "sum", Gaussian(z), value, 1.0)


def leaking(sample, params, spend):
    return released_sum(sample, params, spend) + 20 * column_sums(sample)


def overflowing(sample, params, spend):
    return released_sum(sample, params, spend, np.inf if np.abs(sample.X).max() > 100 else 0.0)


def failing(sample, params, spend):
    if np.abs(sample.X).max() > 100:
        raise FloatingPointError("overflow")
    return released_sum(sample, params, spend)


TOYS = [(leaking, "the estimate"), (overflowing, ""), (failing, "whether it fails")]


@pytest.mark.parametrize(("toy", "distinguisher"), TOYS)
def test_what_shows_beside_the_releases_is_found(toy, distinguisher):
    result = audit_toy(toy, ([[1.0]], [[-1.0]]))
    assert result.violated
    assert distinguisher in (result.leak or result.distinguisher)


def test_the_number_of_releases_must_not_depend_on_the_data():
    def varying(sample, params, spend):
        for _ in range(1 + int(sample.X[0, 0] > 0)):
            found = released(spend, "sum", Gaussian(10.0), column_sums(sample), 1.0)
        return found

    result = audit_toy(varying, ([[1.0]], [[-1.0]]))
    assert result.violated
    assert "number of releases" in result.leak


def test_the_seed_decides_and_the_result_is_plain_data():
    options = {"epsilon": 1.0, "delta": 1e-5, "n_trials": 500}
    first, again = (audit_estimator("dp_mean", rng=np.random.default_rng(4), **options) for _ in range(2))
    assert first == again
    assert json.loads(json.dumps(first.to_dict()))["verdict"] == "no violation found"


# Their noise hides no number that an adversary could compare with; tests of their laws see what is wrong.
HIDES_NO_NUMBER = {"objective_perturbation_glm", "private_frank_wolfe_lasso", "tukey_em", "hessian_mixing"}
HIDES_NO_NUMBER |= {"user_level_phased_erm", "user_level_selection"}
HIDES_NO_NUMBER |= {e.name for e in dpalgos.catalog() if e.name.startswith("ldp_")}
QUICKLY = {"box_mean", "preconditioned_regression: interval", "user_level_mean", "dp_glm"}
TIGHT = [
    pytest.param(e, marks=[] if e.label in QUICKLY else [pytest.mark.audit])
    for each in dpalgos.catalog()
    for e in each.variants
    if e.private and e.protected and "tight" in e.calibrations
]


@pytest.mark.parametrize("estimator", TIGHT, **IDS)
def test_halved_noise_is_found_whatever_the_form(estimator, few_comparisons):
    """By comparison with what the events declare, as an adversary can who knows the data."""
    if estimator.name in HIDES_NO_NUMBER:
        pytest.skip("hides no number")
    settings = {**estimator.example, **QUICK.get(estimator.name, {}), "calibration": "tight"}
    params = build_params(estimator, {"epsilon": 0.5, "delta": 1e-5, **settings})
    found = audit(estimator, params, n_trials=200, rng=np.random.default_rng(0), noise=HalvedNoise)
    assert found.violated, found
    assert min(found.noise_ratios.values()) < 0.65


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "box"])
def test_limits_of_drawn_noise_keep_their_confidence(kind):
    """In one of a thousand audits at most they lie below the noise that was drawn."""
    rng, n_alarms, shape = np.random.default_rng(0), 0, (3, 100)
    settings = {"label": "v", "epsilon": 1.0, "sensitivity": 1.0}
    gaussian = Gaussian(label="v", noise_multiplier=1.0, sensitivity=1.0)
    event, noise = {
        "gaussian": (gaussian, lambda: rng.normal(size=shape)),
        "laplace": (Laplace(**settings), lambda: rng.laplace(size=shape)),
        "box": (Cube(**settings), lambda: rng.gamma(4, size=shape[1]) * rng.uniform(-1, 1, shape)),
    }[kind]
    for _ in range(5000):
        drawn = DrawnNoise()
        drawn.add([ReleasedVector(np.zeros(shape), noise(), (event,))])
        n_alarms += drawn.ratios()["v"] < 1
    assert 0 < n_alarms < 15


def test_halved_noise_of_a_release_is_found(monkeypatch):
    sampler = hardened_noise.gaussian_sampler
    monkeypatch.setattr(hardened_noise, "gaussian_sampler", lambda scale: sampler(scale / 2))
    settings = {"epsilon": 0.5, "delta": 1e-5, "rng": np.random.default_rng(0)}
    found = audit_estimator("dp_mean", value_bound=1.0, n_trials=100, hardened=True, **settings)
    assert found.violated
    assert found.noise_epsilon > 0.8
    assert "0.5" in found.remark


def test_an_audit_of_local_reports_tries_its_pairs_in_one_order():
    """Else the same seed gives other bounds in another process."""
    estimator = dpalgos.get_estimator("ldp_nldp")
    labels = [*estimator.witnesses(estimator.example_params("tight"), 3)]
    assert len(labels) > 5
    assert labels == sorted(labels, key=[*shared_pairs(3)].index)
