"""Foreign libraries: an environment and a process for each script of ``methods``.

A script lists its requirements as inline metadata (PEP 723). ``FAMILIES`` maps the title of each method to
"linear", "logistic", "counts" or "means". ``METHODS`` has their functions of a table, ε, δ and a seed. They
return coefficients with the intercept last. ``worker.py`` documents a table.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.store.folders import home
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.other_events import SampledGaussian
from dpalgos.errors import InputError

HERE = Path(__file__).parent
SCRIPTS = {path.stem: path for path in sorted((HERE / "methods").glob("*.py"))}
SECONDS = 60.0  # of all fits of a method to a table at one ε; imports are not counted
_LOADING = 600.0
_ROUNDING = 1.001  # of a claim, above which the noise that a library shows violates it
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def requirements(script: Path) -> list[str]:
    block = script.read_text(encoding="utf-8").partition("# /// script\n")[2].partition("# ///\n")[0]
    metadata = tomllib.loads(block.replace("# ", ""))
    return [str(each) for each in metadata["dependencies"]]


def python_of(requires: Sequence[str]) -> Path:
    """Return the Python of an environment with some requirements; make the environment if it is missing."""
    if not requires:
        return Path(sys.executable)
    digest = hashlib.sha256("\n".join((sys.version, *requires)).encode()).hexdigest()[:12]
    folder = home() / "league" / "environments" / digest
    python, versions = folder / "bin" / "python", folder / "done"
    if not versions.exists():
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*pip, "install", "--quiet", *requires], check=True)
        versions.write_bytes(subprocess.check_output([*pip, "freeze"]))
    return python


class Library:
    """The process of one script; it is started again after it ended."""

    def __init__(self, script: Path) -> None:
        self.script, self.requires = script, requirements(script)
        self.python = python_of(self.requires)
        self._folder = tempfile.TemporaryDirectory()  # also for what libraries leave behind
        self._process: subprocess.Popen[str] | None = None
        self._table = ""

    @property
    def versions(self) -> list[str]:
        return (self.python.parents[1] / "done").read_text().split() if self.requires else []

    def families(self) -> dict[str, list[str]]:
        return dict(self._answer({"seconds": _LOADING})["families"])

    def load(self, table: Mapping[str, Any]) -> None:
        self._table = str(Path(self._folder.name) / "table.npz")
        np.savez(self._table, **table)
        self._answer({"seconds": _LOADING, "table": self._table})

    def fits(
        self, method: str, seeds: Sequence[int], *, seconds: float | None = None, **request: Any
    ) -> list[dict]:
        if self._process is None:
            self._answer({"seconds": _LOADING, "table": self._table})
        reply = self._answer(
            {
                "method": method,
                "seeds": list(seeds),
                "seconds": SECONDS if seconds is None else seconds,
                **request,
            }
        )
        return list(reply["fits"])

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            reply: dict[str, Any] = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self.close()
            raise InputError(f"it takes more than {request['seconds']:.0f} s, or its process ended") from None
        if "error" in reply:
            raise InputError(reply["error"])
        return reply

    def _start(self) -> "subprocess.Popen[str]":
        self._process = subprocess.Popen(
            [str(self.python), str(HERE / "worker.py"), str(self.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **_ONE_THREAD},
            cwd=self._folder.name,
        )
        return self._process


def proved(fit: Mapping[str, Any], epsilon: float, delta: float) -> float:
    """Return the ε that the noise which a fit shows proves, NaN if none; refuse more than it claims."""
    if not fit["releases"]:
        return np.nan
    events = [
        SampledGaussian(
            label="a release",
            noise_multiplier=each["multiplier"],
            sensitivity=1.0,
            sampling_rate=each["rate"],
            times=int(each["times"]),
        )
        for each in fit["releases"]
    ]
    replayed = certified_epsilon(events, delta)
    if replayed > _ROUNDING * epsilon:
        raise InputError(f"the noise that it shows proves ε = {replayed:.4g}, and it claims {epsilon:g}")
    return min(replayed, epsilon)
