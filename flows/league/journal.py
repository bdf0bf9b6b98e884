"""What a run of the league has measured so far, a line each, so that an interrupted run loses nothing."""

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Journal:
    """Answers by key in a file named after what the run is about; ``finish`` removes it."""

    def __init__(self, folder: Path, about: Sequence[str]) -> None:
        digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._lock = folder / f"{digest}.jsonl", threading.Lock()
        lines = self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else []
        self._known: dict[str, dict[str, Any]] = {}
        for line in lines:
            try:
                key, answer = json.loads(line)
            except ValueError:  # cut off while it was written
                continue
            self._known[json.dumps(key)] = answer

    def get(self, key: Sequence[Any]) -> dict[str, Any]:
        """Return a known answer; an empty one if there is none."""
        return dict(self._known.get(json.dumps(key), {}))

    def add(self, key: Sequence[Any], answer: dict[str, Any]) -> None:
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            self._known[json.dumps(key)] = dict(answer)
            file.write("\n" + json.dumps([key, answer]))

    def finish(self) -> None:
        """Forget all: the results hold what was measured."""
        self._file.unlink(missing_ok=True)
