"""Releases of the command line with little noise: coefficients, means by group, and the baseline table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from tests.builders import release_words
from tests.tasks.analyst_tables import initialized

BUDGET = 2000.0  # of each of two releases
ARMS = {"arm": ["a", "b", "c"]}
RELEASES = {
    "model": ("preconditioned_regression", 'formula = "cost ~ age + arm"'),
    "baseline": ("group_sums", 'table1 = "arm ~ cost + age"'),
}


@pytest.mark.slow
def test_releases_of_the_command_line_are_the_classical_answers(tmp_path, monkeypatch, command_line):
    rng, n = np.random.default_rng(3), 4000
    f = pd.DataFrame({"age": rng.uniform(20, 70, n).round(3), "arm": rng.choice(ARMS["arm"], n)})
    f["cost"] = (rng.gamma(1.5, np.where(f.arm == "b", 20, 12)) + 0.2 * f.age).round(3)
    bounds = {"age": (18, 75), "cost": (0, 300)}
    study = initialized(
        tmp_path, f, bounds=bounds, categories=ARMS, target="least squares", formula="cost ~ age + arm"
    )
    monkeypatch.chdir(tmp_path)
    assert command_line("ledger", "open", "mine", "--epsilon", 3 * BUDGET, "--delta", 1e-4)[0] == 0
    for name, (estimator, question) in RELEASES.items():
        Path(f"{name}.toml").write_text(
            f'{question}\n[dataset]\nname = "mine"\nstudy = "{Path(study).name}"\n'
        )
        words = release_words(estimator, "table.csv", f"{name}.toml", BUDGET)
        status, _, err = command_line(*words, "--interval", 0.95, "--record", name, "--yes")
        assert status == 0, err
    fit, by_arm = smf.ols("cost ~ age + arm", f).fit(cov_type="HC0"), f.groupby("arm").cost
    answer = json.loads(Path("model/release.json").read_text())["release"]["answer"]
    for each in answer:
        name = each["name"]
        assert each["estimate"] == pytest.approx(fit.params[name], abs=0.5 * fit.bse[name])
        assert each["lower"] < fit.params[name] < each["upper"]
    assert command_line("table", "model", "--by", "arm", "--out", "means.csv")[0] == 0
    means = pd.read_csv("means.csv").estimate.to_numpy()
    np.testing.assert_allclose(means, by_arm.mean(), atol=0.25 * by_arm.sem().max())
    _, text, _ = command_line("table", "model", "--by", "arm")
    assert "mean" in text
    assert "robust location" not in text
    assert command_line("table", "baseline", "--out", "baseline.csv")[0] == 0
    table = pd.read_csv("baseline.csv").set_index(["variable", "group", "statistic"])
    for arm, own in by_arm:
        row = table.loc["cost", arm, "mean"]
        assert row.estimate == pytest.approx(own.mean(), abs=0.25 * own.sem())
        assert row.ci_low < own.mean() < row.ci_high
