"""What one device can do: its report is of fixed size, and a lie moves the mean no further than 2 L/n."""

import numpy as np
import pytest

from dpalgos.local import ldp_iht, ldp_nldp
from dpalgos.local.rounds import device_reports, first_state, mean_reports, report_size
from dpalgos.release.noise_source import Noise
from tests.dpalgos.local.local_problems import BUDGET, people

BOUNDS = {**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0}


def moments(epsilon=2.0, **keywords):
    params = ldp_nldp.MomentParams(**{**BOUNDS, "epsilon": epsilon}, **keywords)
    return ldp_nldp.algorithm(params, 3, 100)


def gradients(**keywords):
    return ldp_iht.algorithm(ldp_iht.LDPIHTParams(**BOUNDS, sparsity=1, **keywords), 3, 100)


def honest(algorithm, n=200, seed=0):
    X, y, _ = people(n, 3, seed, coef=(0.5,))
    noise = Noise([np.random.default_rng(seed)])
    parts = algorithm.client(first_state(3))
    return np.concatenate(
        [part.randomizer.perturb(part.vectors(X, y), noise)[:, :, 0] for part in parts], axis=1
    )


@pytest.mark.parametrize("algorithm", [moments(), moments(mechanism="l2"), gradients()])
@pytest.mark.parametrize("row", [[0.0, 0, 0], [1e300, -1e300, 1e-300], [0.1, 0.2, 0.3]])
def test_a_report_has_the_public_size_whoever_sends_it(algorithm, row):
    state = first_state(3)
    report = device_reports(algorithm, state, np.array([row]), np.full(1, -1e200))
    assert report.shape == (1, report_size(algorithm, state))
    assert np.linalg.norm(report) <= algorithm.client(state)[0].randomizer.largest_norm
    assert mean_reports(algorithm, state, report).n_shortened == 0


@pytest.mark.parametrize(
    "algorithm", [moments(), moments(mechanism="l2"), gradients(), moments(mechanism="gaussian")]
)
@pytest.mark.parametrize("size", [1.0, 1e6, 1e308])
def test_the_effect_of_one_lying_report_is_bounded(algorithm, size):
    state, reports = first_state(3), honest(algorithm)
    before = mean_reports(algorithm, state, reports)
    lies = reports.copy()
    lies[5] = -size * np.sign(reports[5])
    after = mean_reports(algorithm, state, lies)
    for part, one, other in zip(algorithm.client(state), before.parts, after.parts, strict=True):
        bound = 2 * part.randomizer.largest_norm / len(reports)
        assert np.linalg.norm(one - other) <= bound * (1 + 1e-9)
    assert before.n_shortened == 0
    assert after.n_shortened == (size > 100)
