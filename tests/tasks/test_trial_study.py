"""The study of synthetic trials: what it estimates is what its rows were drawn with."""

import numpy as np
import pandas as pd
import pytest

from flows.studies.find_study import find_study
from tasks.run.compute import compute_block
from tests.builders import refused

pytestmark = pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")


def test_without_noise_all_estimates_are_near_the_truth():
    spec = find_study("survival")
    blocks = [each for each in spec.blocks("standard", replicates=3, seed=1) if each.replicates.n == 10_000]
    rows = pd.concat([compute_block(each) for each in blocks])
    mean = rows.fillna({"epsilon": 0.0}).groupby(["panel", "estimator", "epsilon"])["value"].mean()
    assert mean["scores", "glm", 0.0] < 0.1
    assert mean["scores", "preconditioned_glm", 3.0] < 0.15
    assert mean["counts", "cumulative_counts", 3.0] < 0.1
    assert mean["curves", "cumulative_counts", 1000.0] < 0.03
    assert mean["scores", "zero", 0.0] == pytest.approx(np.hypot(0.5, 0.4))


def test_a_trial_of_too_few_persons_is_refused():
    problem = find_study("survival").head_panel.problem
    refused(lambda: problem.check(50, "glm"), ValueError, "50")
