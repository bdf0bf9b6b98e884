"""Runs without noise, where every release is exact; runs that publish what an earlier one published."""

from typing import ClassVar

import numpy as np

import dpalgos
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingSpend
from dpalgos.core.spend import Spend
from dpalgos.release.noise_source import Noise, NoNoise
from dpalgos.rows.sample import Sample


def silent(name, X, y=None, **keywords):
    """Return the coefficients; a budget that the estimator needs is given where none is."""
    estimator = dpalgos.get_estimator(name)
    budget = {"epsilon": 1.0, "delta": 1e-6} if estimator.private else {}
    spend = Spend(NoNoise([np.random.default_rng(0)]), estimator.relation or Relation.CENTRAL)
    params = build_params(estimator, {**budget, **keywords})
    return run_estimator(estimator, Sample(X, y), params, spend)[..., 0]


def seeded(seed=0, n_replicates=1):
    """Return what spends for replicates with generators of their own; nothing is planned."""
    return Spend(Noise(np.random.default_rng(seed).spawn(n_replicates)))


def estimated(name, X, y=None, seed=0, **keywords):
    return dpalgos.estimate(name, X, y, rng=np.random.default_rng(seed), **keywords)


def recorded(name, sample, keywords, script=None, *, seed=0, drawn=()):
    """Return the releases and the answer of a run, which publishes what a script says."""
    estimator = dpalgos.get_estimator(name)
    noise = Noise(np.random.default_rng(seed).spawn(sample.n_replicates))
    made = RecordingSpend(noise, estimator.relation, script=script, drawn=drawn)
    params = build_params(estimator, {"epsilon": 1.0, "delta": 1e-6, **keywords})
    return made, run_estimator(estimator, sample, params, made)


class ScriptedReleases:
    """Publishes what an earlier run published, if there is one."""

    script: ClassVar = []
    published: ClassVar = []

    def _publish(self, value, draw):
        index = len(self.published)
        known = self.script[index] if index < len(self.script) else super()._publish(value, draw)
        self.published.append(known)
        return known


def replayed(monkeypatch, answer, tables):
    """Return the answer of each table; after the first one, what that published is published again."""

    class Scripted(ScriptedReleases, Spend):
        pass

    monkeypatch.setattr(dpalgos.api, "Spend", Scripted)
    answers = []
    for table in tables:
        Scripted.published = []
        answers.append(answer(table))
        Scripted.script = Scripted.published
    return answers
