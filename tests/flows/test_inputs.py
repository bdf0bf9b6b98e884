"""Whatever is typed, there is an answer or one sentence: no traceback, no internal error, no source."""

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

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
        "cannot be read",
    ),
    "a study without an end": ("ln -s /dev/zero mine.toml; dpcost run mine.toml", 2, "cannot be read"),
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
        assert not re.search(r'flows/(?!cli/start\.py", line \d+, in <module>)', err), err
