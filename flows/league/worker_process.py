"""The methods of the league, and the processes that run them, each file in its own environment."""

import ast
import hashlib
import json
import os
import select
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.store.code_digest import code_digest
from flows.league.environments import interpreter

_METHODS = Path(__file__).with_name("methods")
_WORKER = Path(__file__).with_name("worker.py")
MOST_SECONDS = 600.0  # of a fit


@dataclass(frozen=True, kw_only=True)
class Method:
    name: str
    families: tuple[str, ...]
    file: Path
    requires: tuple[str, ...]
    ours: bool

    @property
    def digest(self) -> str:
        """Identify what the method's file says."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()[:12]

    def about(self) -> dict[str, Any]:
        library = ", ".join(self.requires) or "this project"
        return {"ours": self.ours, "library": library, "file": self.file.name, "code": self.code}

    @property
    def code(self) -> str:
        """Identify the code that answers: the method's file and, if it is this project's, the estimator."""
        if self.requires:
            return self.digest
        from dpalgos import catalog

        modules = [entry.function.__module__ for entry in catalog() if entry.name == self.name]
        return f"{self.digest} {code_digest(modules)[:12]}" if modules else self.digest


def all_methods(folder: Path = _METHODS) -> list[Method]:
    """Return the methods of all files, without importing what they need."""
    found = []
    for file in sorted(folder.glob("[a-z]*.py")):
        told = _literals(file)
        found += [
            Method(
                name=name,
                families=tuple(families),
                file=file,
                requires=tuple(told["REQUIRES"]),
                ours=told.get("OURS", False),
            )
            for name, families in told["FAMILIES"].items()
        ]
    return found


def _literals(file: Path) -> dict[str, Any]:
    """Return the constants that a file assigns once, as literals."""
    wanted, found = ("REQUIRES", "FAMILIES", "OURS"), {}
    for node in ast.parse(file.read_bytes()).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in wanted
        ):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


class Worker:
    """A process that runs one file of methods; it is started again after one that had to be ended."""

    def __init__(self, method: Method, folder: Path) -> None:
        self._command = [str(interpreter(method.requires, folder)), str(_WORKER), str(method.file)]
        self._place = tempfile.TemporaryDirectory()  # for what libraries leave behind
        self._process: subprocess.Popen[str] | None = None
        self._table: Path | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._place.cleanup()

    def load(self, table: Path) -> dict[str, Any]:
        """Let the next fits be of a table's file."""
        if self._process is not None and self._table == table:
            return {}
        self._table = table
        return self._asked({"table": str(table)}, MOST_SECONDS)

    def fit(self, method: Method, limit: float = MOST_SECONDS, **request: Any) -> dict[str, Any]:
        """Return the coefficients and seconds of a fit, or an error; what lasts too long is ended."""
        if self._process is None and self._table is not None:
            self._asked({"table": str(self._table)}, MOST_SECONDS)
        return self._asked({"method": method.name, **request}, min(limit, MOST_SECONDS))

    def _asked(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        if self._process is None:
            one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            one_thread["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **one_thread},
                cwd=self._place.name,
                start_new_session=True,  # Ctrl-C is for the run, which keeps what it has
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], limit)
            if not ready:
                self._end()
                return {"error": f"it takes more than {limit:.0f} s", "ended": True}
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer
        except (OSError, ValueError):
            self._end()
            return {"error": "its process ended, or could not start"}

    def stop(self) -> None:
        """End a fit that another thread waits for."""
        if (process := self._process) is not None:
            process.kill()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
