"""Audits that replay witnesses, that attack the claimed trade-off curve, and mechanisms of others."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import dpalgos
from data.store.folders import PROJECT_ROOT
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.api import build_params
from dpalgos.audit.foreign import audit_callable, table_pairs
from dpalgos.audit.lower_bound import audit
from dpalgos.audit.trials import BatchNoise
from tests.dpalgos.audit.toys import audit_toy

D = 9


def clipped_mean(sensitivity):
    def mean(sample, params, transcript):
        sums = np.clip(sample.X, -1, 1).sum(axis=0)[:, None] / sample.n_rows
        means = np.repeat(sums, sample.n_replicates, axis=1)[:, : sample.n_replicates]
        z = params.split_budget({"mean": 1.0}).gaussian_multiplier("mean")
        return transcript.gaussian(means, l2_sensitivity=sensitivity, noise_multiplier=z, label="mean")

    return mean


@pytest.mark.parametrize("share", [1.0, 0.9, 1 / np.sqrt(D)])
def test_a_witness_that_moves_by_more_than_is_declared_is_found_in_few_runs(share):
    corners = np.ones((1, D)), -np.ones((1, D))
    result = audit_toy(clipped_mean(2 * np.sqrt(D) * share), corners, n_trials=200)
    assert result.largest_move == pytest.approx(1 / share)
    assert result.violated == (share < 1)
    assert ("'mean' moves by" in result.remark) == (share < 1)


class SmallNoise(BatchNoise):
    factor = 1.0

    def normal(self, *shape):
        return super().normal(*shape) / self.factor

    def select(self, replicates):
        return type(self)(self._rngs[0], len(range(*replicates.indices(self._n_replicates))))


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_the_trade_off_curve_shows_noise_that_counts_of_events_do_not(factor):
    estimator, rng = dpalgos.get_estimator("box_mean"), np.random.default_rng(0)
    asked = {**estimator.example, "noise": "gaussian", "epsilon": 0.5, "delta": 1e-5}
    noise = type("Noise", (SmallNoise,), {"factor": factor})
    result = audit(estimator, build_params(estimator, asked), n_trials=100_000, rng=rng, noise=noise)
    assert result.epsilon_lower_bound <= result.claimed_epsilon
    assert (result.mu_lower_bound > result.mu) == result.violated == (factor > 1)


def gaussian_mechanism(mu):
    def mechanism(table, seed):
        return np.clip(table, -1, 1).sum(axis=0)[:1] + 2 / mu * np.random.default_rng(seed).normal(size=1)

    return mechanism


@pytest.mark.parametrize("true", [1.0, 2.0])
def test_a_mechanism_of_others_is_attacked_by_its_claimed_curve(true):
    pairs = table_pairs(4, 1, 1.0)
    claim = {"mu": 1.0, "epsilon": gaussian_epsilon(1e-5, 1.0), "delta": 1e-5}
    found = audit_callable(gaussian_mechanism(true), pairs=pairs, n_trials=3000, **claim)
    assert (found.mu_lower_bound > 1.0) == found.violated == (true > 1)
    assert found.epsilon_lower_bound < claim["epsilon"]


PLUGIN = """
from dataclasses import dataclass
import numpy as np
from dpalgos.catalog import pair, register
from dpalgos.params import PrivateParams

@dataclass(frozen=True, kw_only=True, eq=False)
class HastyParams(PrivateParams):
    pass

@register(
    title="Hasty mean", order=986, task="mean", reference="theirs",
    summary="A mean whose sensitivity lacks √d.",
    calibrations=("tight",), no_interval="none",
    witnesses=lambda params, d, published: {"mean": pair(np.ones((1, d)), -np.ones((1, d)))},
)
def hasty_mean(sample, params: HastyParams, transcript):
    multiplier = params.split_budget({"mean": 1.0}).gaussian_multiplier("mean")
    total = np.repeat(np.clip(sample.X, -1, 1).mean(axis=0)[:, None], sample.n_replicates, axis=1)
    return transcript.gaussian(
        total, l2_sensitivity=2 / len(sample.X), noise_multiplier=multiplier, label="mean"
    )
"""


def test_a_plugin_whose_own_witness_contradicts_it_fails_its_audit(tmp_path):
    file = tmp_path / "hasty.py"
    file.write_text(PLUGIN)
    # A process of its own: this one has its catalog.
    command = [sys.executable, "-c", "from flows.cli.start import main; main()", "audit", "hasty_mean"]
    asked = [*command, "--with", file, "--trials", "1000", "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=PROJECT_ROOT)
    assert done.returncode == 1, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["verdict"] == "violated"
    assert result["largest_move"] == pytest.approx(np.sqrt(3))


PAIRS = table_pairs(5, 2, 1.0)


def laplace_mean(scale):
    """Return the mean with Laplace noise of a multiple of what ε = 1 needs: rows move it by 2 · 2/5 in ℓ1."""

    def mechanism(table, rng):
        return np.clip(table, -1, 1).mean(axis=0) + rng.laplace(scale=scale * 4 / len(table), size=2)

    return mechanism


def attack(mechanism, pairs=PAIRS):
    seeded = lambda table, seed: mechanism(table, np.random.default_rng(seed))  # noqa: E731
    return audit_callable(seeded, epsilon=1.0, delta=0.0, pairs=pairs, n_trials=2000)


def test_a_private_mean_withstands():
    found = attack(laplace_mean(1.0), PAIRS[:12])  # which pair is chosen depends on how many there are
    assert not found.violated
    assert found.epsilon_lower_bound > 0.3


def exact_now_and_then(table, rng):
    return table[0, 0] if rng.random() < 0.2 else rng.normal(scale=100)


def failing(table, rng, error=ValueError):
    if table[0, 0] < 0:
        raise error(0)
    return rng.normal(size=1)


def failing_or_empty(table, rng):
    if rng.random() < 0.5:
        return rng.normal(size=1)
    if table[0, 0] > 0:
        raise ValueError("no")
    return []


def infinite_or_nan(table, rng):
    return rng.normal() if abs(table[0, 0]) < 1 else np.inf if table[0, 0] > 0 else -np.inf


def longer(table, rng):
    return rng.normal(size=2 + (table[0, 0] > 0))


TELLING = [laplace_mean(0.3), exact_now_and_then, failing, partial(failing, error=SystemExit)]
TELLING += [failing_or_empty, infinite_or_nan, longer]


@pytest.mark.parametrize("mechanism", TELLING)
def test_what_tells_two_tables_apart_is_seen(mechanism):
    assert attack(mechanism, PAIRS[:1] if mechanism is failing_or_empty else PAIRS).violated
