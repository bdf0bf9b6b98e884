"""The process that runs a foreign library: one at a time in each thread, which stays for the next fits."""

import json
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpalgos.errors import InputError

_WORKER = Path(__file__).with_name("worker.py")
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
_LOADING = 600.0  # seconds of reading a table, which begin with what the library imports
_current = threading.local()


class LibraryProcess:
    """A process that runs one file of methods; it is started again after one that had to be ended."""

    def __init__(self, file: Path, python: Path | None) -> None:
        self.file, self._python = file, python
        self._place = tempfile.TemporaryDirectory()  # also for what libraries leave behind
        self._process: subprocess.Popen[str] | None = None
        self._table: Mapping[str, Any] | None = None

    def load(self, table: Mapping[str, Any]) -> None:
        """Let the next fits be of a table."""
        if self._process is None or self._table is not table:
            path = Path(self._place.name) / "table.npz"
            np.savez(path, **table)
            self._table = table
            self._answer({"table": str(path)}, _LOADING)

    def fits(self, method: str, seeds: Sequence[int], seconds: float, **request: Any) -> list[dict[str, Any]]:
        """Return the estimates of fits; refuse a fit that fails, or fits that take too long together."""
        if self._process is None and self._table is not None:
            self.load(self._table)
        end, lines = time.monotonic() + seconds, []
        for seed in seeds:
            left = end - time.monotonic()
            lines.append(self._answer({"method": method, "seed": seed, **request}, left, seconds))
        return lines

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _answer(self, request: Mapping[str, Any], left: float, limit: float = _LOADING) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], max(left, 0.0))
            answer: dict[str, Any] = json.loads(process.stdout.readline()) if ready else {}
        except (OSError, ValueError):
            self.close()
            raise InputError("its process ended, or could not start") from None
        if not ready:
            self.close()
            raise InputError(f"it takes more than {limit:.0f} s")
        if "error" in answer:
            raise InputError(answer["error"])
        return answer

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            if self._python is None:
                raise InputError("its environment is not in DPCOST_HOME")
            self._process = subprocess.Popen(
                [str(self._python), str(_WORKER), str(self.file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **_ONE_THREAD},
                cwd=self._place.name,
                start_new_session=True,  # Ctrl-C is for the run
            )
        return self._process


def process_of(file: Path, python: Path | None) -> LibraryProcess:
    """Return this thread's process of a library; end the one of another library, for they fill the memory."""
    process: LibraryProcess | None = getattr(_current, "process", None)
    if process is None or process.file != file:
        if process is not None:
            process.close()
        process = _current.process = LibraryProcess(file, python)
    return process
