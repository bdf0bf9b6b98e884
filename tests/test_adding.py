"""The examples of docs/contributing/adding, run as they stand there in a copy of the project."""

import re
import shutil

import pytest

from tests.builders import PROJECT, copied_project, run_there

EXAMPLE = re.compile(
    r"^`([\w/.]+)`(, one more entry)?:\n\n```(?:python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PAGES = sorted((PROJECT / "docs" / "contributing" / "adding").glob("*.md"))
CHECK = """
import sys
from pathlib import Path

import numpy as np

import dpalgos
from dpalgos.mechanisms.noisy_count import noisy_count
from dpalgos.mechanisms.sensitivity import count
from dpalgos.release.noise_source import NoNoise
from dpalgos.accounting.events import Gaussian
from dpalgos.core.spend import Spend
from flows.serve import deployments
from flows.studies.results import headline_of
from data.store.folders import REPORTS
from tasks.cells import Replicates
from tasks.problems.kinds import kinds
from tasks.run_options import RunOptions
from tasks.scorecard.claims import load_scorecard

here, project = map(Path, sys.argv[1:])
assert Path(dpalgos.__file__).is_relative_to(here), dpalgos.__file__
X = np.random.default_rng(0).uniform(-2, 2, (500, 3))
rng = np.random.default_rng(1)
private = dpalgos.estimate("range_mean", X, epsilon=1.0, delta=1e-5, value_bound=1.0, rng=rng)
assert private.certified_epsilon <= 1.0
assert np.abs(private.estimate - np.clip(X, -1, 1).mean(axis=0)).max() < 0.2
spend = Spend(NoNoise([rng])).start({"rows": Gaussian(2.0)}, {"rows": (count,)})
counted = noisy_count(spend, "rows", np.ones(5, dtype=bool))
assert (counted.value.item(), counted.std.item()) == (5.0, 2.0)
y = np.random.default_rng(2).binomial(2, 1 / (1 + np.exp(-X[:, 0])))
fit = dpalgos.estimate("glm", X, y, family="two_trials", rng=rng)
assert abs(fit.estimate[0] - 1) < 0.3
settings = {"model": "gaussian_mean", "d": 3}
problem = kinds()["relative_simulation"].source(kind="relative_simulation", **settings)
relative, absolute = (kinds()[kind].measure.measure for kind in ("relative_simulation", "simulation"))
n = Replicates(study="mine", panel="one", n=50, first=0, count=1, of=1, seed=1)
draw, = problem.draws(n, None)
answer = dpalgos.estimate("sample_mean", draw.sample, rng=rng)
length = np.linalg.norm(draw.target)
found = relative(problem.traits, draw, answer)["relative_error"]
np.testing.assert_allclose(length * found, absolute(problem.traits, draw, answer)["l2_error"])
assert {"heights", "outliers"} <= {each.name for each in deployments("home")}
assert "A-guarantee-outliers" in {claim.id for claim in load_scorecard().claims}
sys.path.append(str(project))
import os
(here / "mirror" / "heights").mkdir(parents=True)
rows = rng.normal([165.0, 70.0], [15.0, 9.0], (2000, 2))
file = here / "mirror" / "heights" / "heights.csv"
np.savetxt(file, rows, delimiter=",", header="height,weight", comments="")
os.environ["DPCOST_DATA_MIRROR"] = str(here / "mirror")
from tests.plain_runs import run_plainly
for name in ("heights", "outliers"):
    options = RunOptions(profile="smoke", reps=2, seed=1, out=str(here / "out"), offline=True)
    page, _ = run_plainly(name, options)
    print(name, headline_of(page))
assert "10 % of the rows are outliers." in (here / "out" / "outliers" / "report.md").read_text()
"""


def test_every_page_has_an_example():
    assert [page.stem for page in PAGES if not EXAMPLE.search(page.read_text())] == []


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    folder = copied_project(tmp_path_factory.mktemp("project"))
    text = "\n".join(page.read_text() for page in PAGES)
    for path, more, code in EXAMPLE.findall(text):
        assert (folder / path).exists() == bool(more), path
        with (folder / path).open("a") as file:
            file.write(f"\n{code}" if more else code)
    return folder


def test_each_example_is_found_and_runs_to_its_report(extended):
    said = run_there(extended, "-c", CHECK, str(extended), str(PROJECT)).stdout
    assert re.search(r"^heights .*ε = 0.5", said, re.MULTILINE)
    assert re.search(r"^outliers .*ε = 0.5", said, re.MULTILINE)


@pytest.mark.slow
def test_the_estimator_passes_the_tests_of_all_estimators(extended):
    for part in ("contract", "tasks"):  # the former's suites take helpers from the latter
        shutil.copytree(PROJECT / "tests" / part, extended / "tests" / part)
    for file in ("tests/builders.py", "pyproject.toml"):
        shutil.copy(PROJECT / file, extended / file)
    run_there(extended, "-m", "pytest", "-p", "no:cacheprovider", "-k", "range_mean", "tests/contract")
