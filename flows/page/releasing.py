"""The release of a plan, by the command line in a process of its own: a closed window does not end it."""

import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread

_LINES = 30  # of what it says, the last ones


class Releasing:
    """At most one release at a time; what it says, and how it ended."""

    def __init__(self, plan: Path, results: Path) -> None:
        self._words = [
            str(Path(sys.executable).with_name("dpcost")),
            "protocol",
            "release",
            str(plan),
            "--out",
            str(results),
            "--yes",
        ]
        self._folder, self._lock = plan.parent, Lock()
        self.said: list[str] = []
        self.status: int | None = None
        self.is_running = False

    def start(self) -> bool:
        """Start the release; return False if one is under way, as after a second click."""
        with self._lock:
            if self.is_running:
                return False
            self.is_running, self.status, self.said = True, None, []
        Thread(target=self._run, daemon=True).start()
        return True

    def _run(self) -> None:
        try:
            with subprocess.Popen(
                self._words,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C of the page does not reach it
            ) as process:
                assert process.stderr
                for line in process.stderr:
                    self.said = [*self.said, line.rstrip()][-_LINES:]
            self.status = process.returncode
        finally:
            self.is_running = False
