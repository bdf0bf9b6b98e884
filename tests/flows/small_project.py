"""A small study with a home and reports of its own, and ``dpcost`` on them in processes of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
DPCOST = "import sys; from flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"

STUDY = """
title = "A small study"
question = "Does the pipeline hold?"
task = "linear_regression"
size_label = "subsample size m"
metric_label = "error"
deleted_rows = [1]
grid = { n = [100, 5000, 20000], epsilon = [0.5], delta = ["1/n^2"] }
replicates = { smoke = 2, standard = 4, paper = 200 }
headline = { n = 20000, epsilon = 0.5, delta = "1/n^2", panel = "public" }

[[panels]]
name = "public"
[panels.problem]
kind = "subsamples"
dataset = "housing"
response = "median_house_value"
covariates = ["median_income", "housing_median_age", "population", "households", "total_rooms"]
units = "public"

[[panels]]
name = "paper"
[panels.problem]
kind = "subsamples"
dataset = "housing"
response = "median_house_value"
covariates = ["median_income", "housing_median_age", "population", "households", "total_rooms"]
units = "standardised"

[[estimators]]
name = "zero"

[[estimators]]
name = "ols"

[[estimators]]
name = "adassp"
calibrations = ["tight"]
params = { covariate_bound = 3.0, response_bound = 2.0 }
"""


class Project:
    """A home, a folder of reports and a small study, and ``dpcost`` on them in processes of its own."""

    def __init__(self, folder, name="one"):
        self.folder = folder
        self.home, self.out = folder / f"home {name}", folder / f"out {name}"
        self.study = folder / "small.toml"
        self.study.write_text(STUDY)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        self.environment = inherited | {
            "DPCOST_HOME": str(self.home),
            "PYTHONPATH": str(PROJECT),
            "PREFECT_HOME": str(folder / "client"),
        }

    def start(self, *arguments, code=DPCOST, stderr=subprocess.PIPE, **environment):
        # A shell may have started the tests with Ctrl-C ignored, which children inherit.
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=PROJECT,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def become(self, *arguments):
        """Replace this process by a command."""
        os.chdir(PROJECT)
        os.execve(sys.executable, [sys.executable, "-c", DPCOST, *map(str, arguments)], self.environment)

    def dpcost(self, *arguments, status=0, **environment):
        """Run a command; return what it said on standard output and on standard error."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=300)
        assert process.returncode == status, out + err
        assert "Traceback" not in err
        return out, err

    def run(self, *options, **keywords):
        return self.dpcost("run", self.study, "--profile", "smoke", "--out", self.out, *options, **keywords)

    @property
    def results(self):
        import pandas as pd

        return pd.read_parquet(self.out / "small" / "results.parquet")

    @property
    def times(self):
        import pandas as pd

        return pd.read_parquet(self.out / "small" / "timings.parquet")

    def computed(self):
        """Return when each block's rows, and its times, were written."""
        return {path.name: path.stat().st_mtime_ns for path in (self.home / "cache").glob("*/*.parquet")}

    def same_results(self, other):
        """Whether both tables are the same file, byte by byte."""
        mine, others = (each.out / "small" / "results.parquet" for each in (self, other))
        return mine.read_bytes() == others.read_bytes()
