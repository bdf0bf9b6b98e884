"""Faults that someone could make in a randomizer or a device, one at a time, and what sees each."""

from dataclasses import replace

import numpy as np
import pytest

import dpalgos
from dpalgos.api import build_params
from dpalgos.audit.lower_bound import audit
from tests.dpalgos.audit.faults import HalvedNoise


def audited(name, epsilon=2.0, n_trials=20_000, noise=None, **keywords):
    estimator = dpalgos.get_estimator(name)
    given = {**estimator.example, **keywords, "epsilon": epsilon, "delta": 1e-5}
    rng = np.random.default_rng(0)
    more = {} if noise is None else {"noise": noise}
    return audit(estimator, build_params(estimator, given), n_trials=n_trials, rng=rng, **more)


@pytest.mark.audit
@pytest.mark.parametrize("name", ["ldp_nldp", "ldp_nldp_public", "ldp_iht"])
def test_rows_that_are_not_clipped_are_seen_by_an_audit(name, monkeypatch):
    monkeypatch.setattr("dpalgos.local.rounds.LocalParams.clipped", lambda self, X: X)
    assert audited(name, n_trials=2000).violated


@pytest.mark.audit
@pytest.mark.parametrize("name", ["ldp_nldp", "ldp_nldp_public", "ldp_iht", "ldp_iht_general"])
def test_responses_and_residuals_that_are_not_clipped_are_seen_by_an_audit(name, monkeypatch):
    module = "ldp_iht" if name.startswith("ldp_iht") else "noisy_moments"
    monkeypatch.setattr(f"dpalgos.local.{module}.truncate", lambda values, *bounds: values)
    assert audited(name, n_trials=2000).violated


@pytest.mark.audit
def test_a_gaussian_clip_that_is_left_out_is_seen_by_an_audit(monkeypatch):
    monkeypatch.setattr("dpalgos.local.ldp_nldp.clip_rows_l2", lambda rows, bound: rows)
    assert audited("ldp_nldp", n_trials=2000, mechanism="gaussian").violated


@pytest.mark.audit
def test_halved_gaussian_noise_is_seen_by_an_audit():
    assert audited("ldp_nldp_public", noise=HalvedNoise, mechanism="gaussian", n_trials=100_000).violated


@pytest.mark.audit
def test_people_asked_twice_are_charged_twice(monkeypatch):
    """All groups are the same people: no longer disjoint, and the audit of one person's reports tells."""
    estimator = dpalgos.get_estimator("ldp_iht")
    monkeypatch.setattr("dpalgos.local.rounds.public_groups", lambda n, n_rounds: [np.arange(n)] * n_rounds)
    monkeypatch.setattr("dpalgos.local.ldp_iht.public_groups", lambda n, n_rounds: [np.arange(n)] * n_rounds)
    no_witness = replace(estimator, witnesses=None)
    given = {**estimator.example, "n_rounds": 3, "epsilon": 1.0, "delta": 1e-5, "coef_bound": 1e-3}
    found = audit(no_witness, build_params(estimator, given), n_trials=50_000, rng=np.random.default_rng(0))
    assert found.violated
