"""The release of a plan by the command line, in a process of its own: a closed window does not end it."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread

_LINES = 30  # the last lines of its messages


class Releasing:
    """At most one release at a time, with its messages and how it ended."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self.messages: list[str] = []
        self.status: int | None = None
        self.is_running = False

    def start(self, commands: Sequence[Sequence[str]]) -> bool:
        """Run commands one after another; return False if a release is under way, as after a second click."""
        with self._lock:
            if self.is_running:
                return False
            self.is_running, self.status, self.messages = True, None, []
        Thread(target=self._run, args=(commands,), daemon=True).start()
        return True

    @property
    def progress(self) -> tuple[bool, int | None, list[str]]:
        return self.is_running, self.status, self.messages

    def _run(self, commands: Sequence[Sequence[str]]) -> None:
        status = 1
        try:
            for words in commands:
                status = self._one(words)
                if status:
                    break
        finally:
            self.status, self.is_running = status, False

    def _one(self, words: Sequence[str]) -> int:
        with subprocess.Popen(
            [str(Path(sys.executable).with_name("dpcost")), *words],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C of the page does not reach it
        ) as process:
            assert process.stderr
            for line in process.stderr:
                self.messages = [*self.messages, line.rstrip()][-_LINES:]
        return process.returncode


def text_of_command(words: Sequence[str]) -> str:
    return shlex.join(["dpcost", *words])
