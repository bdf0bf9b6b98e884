"""Whatever is typed, there is an answer or one sentence: no traceback, no internal error, no source."""

import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from small_project import STUDY

N_RANDOM = 80
ROWS = "age,weight\n" + "".join(f"{20 + i % 60},{50 + i % 40}\n" for i in range(200))
CONFIG = """
[dataset]
name = "people"
[columns]
x = ["age"]
[bounds]
value_bound = {bound}
[params]
{params}
"""
ESTIMATORS = ("dp_mean", "dp_sparse_mean", "clipped_mean", "adassp", "dp_glm", "sample_mean", "")
PATHS = (
    *("", ".", "/", "/dev/null", "/dev/null/x", "/dev/full", "/proc/x", "/proc/self/mem", "~nosuchuser/x"),
    *("a\nb", "-", "nowhere", "x" * 300, "y/" * 3000, "/root/../..", "\udcff", "ä", "%s", "{home}"),
    *("housing.toml", "/etc/passwd"),
)


class Inputs:
    """Random command lines, study files, configurations and environments."""

    def __init__(self, seed, folder):
        self.chance, self.folder = random.Random(seed), folder
        self.data = folder / "people.csv"
        self.data.write_text(ROWS)

    def number(self):
        length = self.chance.choice((1, 2, 5, 20, 191, 308, 400))
        digits = "".join(self.chance.choices("0123456789", k=length))
        exponent = self.chance.choice((-400, -308, -170, -30, -9, -3, 0, 3, 30, 170, 308, 400))
        usual = (digits, f"-{digits}", f"0.{digits}", f"{digits}.5", f"1e{exponent}", f"-1e{exponent}")
        sane = ("0.5", "1e-5", "1e-6", "2", "100")
        odd = ("nan", "inf", "-inf", "0", "-0", "1_000", "0x10", "", " ", "½", "٣", "1e", "true", "--")
        return self.chance.choice(self.chance.choice((usual, usual, sane, sane, odd)))

    def path(self):
        return self.chance.choice(PATHS)

    def config(self):
        params = self.chance.choice(("", f"sparsity = {self.number()}", f'shrinkage = "{self.number()}"'))
        text = CONFIG.format(bound=self.number(), params=params)
        (self.folder / "release.toml").write_text(text)
        return self.folder / "release.toml"

    def study(self):
        place = self.chance.choice(("covariate_bound = 3.0", "n = [100, 5000, 20000]", 'delta = ["1/n^2"]'))
        number = self.chance.choice(
            (self.number(), f'"{self.number()}"', f'"{self.number()}^{self.number()}"')
        )
        changed = place.partition("=")[0] + "= " + (f"[{number}]" if "[" in place else number)
        (self.folder / "mine.toml").write_text(STUDY.replace(place, changed, 1))
        return self.folder / "mine.toml"

    def command(self):
        """Return a command line and the environment variables that go with it."""
        name = self.chance.choice(ESTIMATORS)
        budget = ["--epsilon", self.number(), "--delta", self.number()]
        sane = ["--epsilon", "0.1", "--delta", "1e-7"]
        ask = ["release", name, "--data", self.data, "--config", self.config()]
        wrong_home = {"DPCOST_HOME": self.path().replace("\0", "")}
        return self.chance.choice(
            (
                (["audit", name, "--trials", "1000", *budget], {}),
                (["audit", name, "--trials", "1000", "--seed", self.number()], {}),
                (["audit", "dp_mean", "--trials", "-" + self.number()], {}),
                (["ledger", "open", self.chance.choice(("people", self.number())), *budget], {}),
                ([*ask, *budget], {}),
                ([*ask, *sane], {}),
                (["release", "dp_mean", "--data", self.path(), "--config", self.config(), *sane], {}),
                (["release", "dp_mean", "--data", self.data, "--config", self.path(), *sane], {}),
                (["rerun", self.study(), "--task", "collect"], {}),
                (["rerun", "housing", "--task", "collect", "--out", self.path()], {}),
                (["run", self.path() or "x", "--reps", self.number(), "--seed", self.number()], {}),
                (["run", "housing", "--engine", self.path(), "--out", self.path()], {}),
                (["compare", self.path(), self.path()], {}),
                (["report", "housing", "--out", self.path()], {}),
                (self.chance.choice((["status"], ["cache", "list"], ["ledger", "show"])), wrong_home),
            )
        )


def check(status, out, err, command):
    assert status in (0, 2), (command, err)
    assert "Traceback" not in out + err, command
    assert "internal error" not in err, (command, err)
    assert not re.search(r"\.py:\d+", err), (command, err)
    if status == 2:
        assert err.startswith("dpcost: "), (command, err)
        assert err.strip().count("\n") == 0, (command, err)


def try_inputs(dpcost, monkeypatch, folder, seeds):
    dpcost("ledger", "open", "people", "--epsilon", "1e5", "--delta", "0.5")
    monkeypatch.chdir(folder)
    statuses = []
    for seed in seeds:
        command, environment = Inputs(seed, folder).command()
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            answer = dpcost(*command)
        check(*answer, (seed, *command, environment))
        statuses.append(answer[0])
    return statuses


@pytest.mark.slow
def test_random_inputs_get_an_answer_or_one_sentence(command_line, monkeypatch, tmp_path):
    statuses = try_inputs(command_line, monkeypatch, tmp_path, range(N_RANDOM))
    assert {0, 2} == set(statuses)


# Surroundings in which a command was seen to end in a traceback: a line of the shell, and what it has to say.
SURROUNDINGS = {
    "a folder that is gone": (
        "mkdir gone; cd gone; rmdir ../gone; DPCOST_HOME=x dpcost status",
        2,
        "DPCOST_HOME must be a folder",
    ),
    "reports nowhere": ("dpcost run housing --out /proc/x", 2, "--out must be a folder that can be written"),
    "reports in a folder that is gone": (
        "mkdir gone; cd gone; rmdir ../gone; dpcost run housing --out x",
        2,
        "--out must be a folder that can be written",
    ),
    "a wrong level of logging": ("PREFECT_LOGGING_LEVEL=FOO dpcost run housing", 2, "must be one of DEBUG"),
    "nobody reads on": ("set -o pipefail; dpcost studies | (exec <&-; sleep 3)", 1, ""),
    "a full disk for the answer": ("dpcost studies > /dev/full", 2, "no space left"),
    "a full disk for the sentence": ("dpcost rnu 2> /dev/full", 2, ""),
    "no standard error": ("dpcost rnu 2>&-", 2, ""),
    "no standard output": ("dpcost studies >&-", 0, ""),
    "no streams at all": ("dpcost status <&- >&- 2>&-", 0, ""),
    "letters that the terminal lacks": ("PYTHONIOENCODING=ascii dpcost estimators", 0, ""),
    "a config without an end": (
        "dpcost release dp_mean --data x.csv --config /dev/zero --epsilon .1 --delta 1e-7",
        2,
        "more than 1 MB",
    ),
    "a study without an end": ("ln -s /dev/zero mine.toml; dpcost run mine.toml", 2, "more than 1 MB"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SURROUNDINGS)
def test_odd_surroundings_are_one_sentence(project, case):
    line, status, sentence = SURROUNDINGS[case]
    start = f'dpcost() {{ "{sys.executable}" -c "from flows.cli.start import main; main()" "$@"; }}'
    environment = {**project.environment, "DPCOST_HOME": str(project.home)}
    done = subprocess.run(
        ["bash", "-c", f"{start}; {line}"],
        env=environment,
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert sentence in done.stderr
    assert done.stderr.count("\n") <= 1
    assert "internal error" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_while_the_command_loads_is_no_traceback(project):
    for delay in np.linspace(0.02, 0.6, 15):
        process = project.start("status")
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        # What Python says before it gets there, and while it loads the first file there, is its own.
        assert not re.search(r'flows/(?!start\.py", line \d+, in <module>)', err), err
