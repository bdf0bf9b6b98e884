"""Mistakes in the file of an estimator: each is named in a sentence with what to write."""

import os
import subprocess
import sys

import numpy as np
import pytest

from dpalgos.api import build_params
from dpalgos.audit.lower_bound import audit
from dpalgos.catalog import get_estimator
from dpalgos.core.estimator import PrivateEstimator
from tests.builders import PROJECT

REGISTER = """@register(name="mine", title="Mine", order=986, task="mean", reference="x", summary="x.",
    calibrations=("tight",), no_interval="none", example={"value_bound": 1.0})
"""
DATACLASS = "@dataclass(frozen=True, kw_only=True)\n"
RELEASE = 'spend("mean", own_sensitivity.of(mean, self.value_bound, rows.d, rows.n))'
PLUGIN = f"""
from dataclasses import dataclass
import numpy as np
from dpalgos.catalog import register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.rows import clipped_mean
from dpalgos.core.plans import Share, gaussian_plan
from dpalgos.mechanisms.sensitivity import ball_mean, lemma
from dpalgos.params import positive
from dpalgos.rows.products import truncate

@lemma("2B√d/n")
def own_sensitivity(bound, d, n_rows):
    return np.asarray(2 * bound * np.sqrt(d) / n_rows)

{REGISTER}{DATACLASS}class Mine(PrivateEstimator):
    value_bound: float = positive("B")
    batch = True
    lemmas = {{"mean": own_sensitivity}}

    def plan(self, n, d):
        return gaussian_plan(self.epsilon, self.delta, {{"mean": Share(1.0)}})

    def fit(self, rows, spend):
        mean = clipped_mean(rows, truncate, self.value_bound)
        return {RELEASE}.value
"""
# What stands there, what a person wrote, and what the sentence names
MISTAKES = {
    "a lemma without @lemma": ('@lemma("2B√d/n")\n', "", ["own_sensitivity", "@lemma("]),
    "a lemma that is a number": ('"mean": own_sensitivity', '"mean": 1.0', ["lemmas['mean']", "@lemma("]),
    "an array without its sensitivity": (RELEASE, 'spend("mean", mean)', ["'mean'", "ndarray", ".of("]),
    "not frozen": ("frozen=True, ", "", ["@dataclass(frozen=True, kw_only=True)"]),
    "no dataclass": (DATACLASS, "", ["Mine", "@dataclass(frozen=True, kw_only=True)"]),
    "decorators in another order": (
        REGISTER + DATACLASS,
        DATACLASS + REGISTER,
        ["Mine", "between @register"],
    ),
    "a release that is not planned": ('spend("mean"', 'spend("other"', ["'other'", "'mean' (1 times)"]),
    "a release too many": (
        f"return {RELEASE}",
        f"{RELEASE}\n        return {RELEASE}",
        ["'mean'", "exceeds"],
    ),
    "a release that is not made": (f"{RELEASE}.value", "mean", ["not made", "through spend"]),
    "a lemma of another label": ('{"mean": own', '{"means": own', ["'mean'", "lemmas ="]),
    "another lemma": (
        "own_sensitivity.of(mean, self.value_bound, rows.d,",
        "ball_mean.of(mean, 1.0,",
        ["2B√d/n"],
    ),
    "no lemmas": ('    lemmas = {"mean": own_sensitivity}\n', "", ["releases"]),
    "the pair of value and noise": (f"{RELEASE}.value", RELEASE, ["Noisy", ".value"]),
    "no value": (f"return {RELEASE}.value", RELEASE, ["NoneType", "return"]),
    "no plan": ("return gaussian_plan", "gaussian_plan", ["plan", "None", "gaussian_plan("]),
    "shares in place of slots": (
        'gaussian_plan(self.epsilon, self.delta, {"mean": Share(1.0)})',
        '{"mean": Share(1.0)}',
        ["plan", "Share", "gaussian_plan("],
    ),
    "no fit": ("def fit(", "def fitted(", ["Mine", "define fit"]),
    "a keyword without text": ('positive("B")', "1.0", ["value_bound", "documentation"]),
    "no example": (', example={"value_bound": 1.0}', "", ["example", "value_bound"]),
    "no reason for no interval": (' no_interval="none",', "", ["no_interval"]),
    "a name that is taken": ('name="mine"', 'name="dp_mean"', ["'dp_mean'", "rename"]),
}
RUN = """
import numpy as np, dpalgos
rng = np.random.default_rng(0)
dpalgos.estimate("mine", np.zeros((50, 3)), epsilon=1, delta=1e-5, value_bound=1.0, rng=rng)
"""


def run_plugin(folder, text):
    (folder / "mine.py").write_text(text)
    variables = {**os.environ, "DPCOST_WITH": str(folder / "mine.py"), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-W", "ignore", "-c", RUN]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_the_plugin_without_a_mistake_runs(tmp_path):
    done = run_plugin(tmp_path, PLUGIN)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_what_to_write(tmp_path, mistake):
    old, new, names = MISTAKES[mistake]
    assert PLUGIN.count(old) == 1
    done = run_plugin(tmp_path, PLUGIN.replace(old, new))
    assert done.returncode
    assert [word for word in names if word not in done.stderr] == [], done.stderr
    assert "AttributeError" not in done.stderr


class Leaking(PrivateEstimator):
    """Runs another estimator, and adds a little of the exact mean."""

    def __init__(self, intact, share):
        vars(self).update(intact=intact, share=share, **vars(intact))

    lemmas = property(lambda self: self.intact.lemmas)
    batch = True

    def plan(self, n, d):
        return self.intact.plan(n, d)

    def fit(self, rows, spend):
        exact = rows.mean(lambda block: block.total(np.clip(block.X, -1, 1)))
        return self.intact.fit(rows, spend) + self.share * exact


@pytest.mark.parametrize(("share", "is_violated"), [(1e-3, True), (1e-9, True), (0.0, False)])
def test_an_audit_finds_rows_that_reach_the_estimate_without_noise(share, is_violated):
    estimator = get_estimator("box_mean")
    intact = build_params(
        estimator, {"epsilon": 1.0, "delta": 1e-5, "lower": -1.0, "upper": 1.0, "noise": "gaussian"}
    )
    found = audit(estimator, Leaking(intact, share), n_trials=2000, rng=np.random.default_rng(0))
    assert found.violated == is_violated
    assert ("estimate" in found.remark) == is_violated
    assert found.to_dict()["leak"] == "the estimate" * is_violated
