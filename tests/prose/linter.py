"""Check the prose of files by the rules of ``rules.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.prose.passages import passages

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
RULES: dict[str, Any] = tomllib.loads((HERE / "rules.toml").read_text(encoding="utf-8"))
EXCEPTIONS: dict[str, Any] = tomllib.loads((HERE / "exceptions.toml").read_text(encoding="utf-8"))
_PATTERNS = [
    (re.compile(each["pattern"].replace(" ", r"\s+"), re.IGNORECASE), each["instead"])
    for each in RULES["words"]
]
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)[.!?][\"”)*]*(?=\s)|\s*\Z")
_WORD = re.compile(r"[^\W_]+(?:['’.,/–−^*_-]*[^\W_]+)*")


def files() -> list[Path]:
    found = {path for pattern in RULES["files"] for path in PROJECT.glob(pattern)}
    left_out = {path for pattern in RULES["left_out"] for path in PROJECT.glob(pattern)}
    return sorted(found - left_out)


def faults(path: Path) -> Iterator[str]:
    """Yield ``FILE:LINE: fault`` for each fault of a file that is not excepted."""
    name = path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else path.name
    allowed = [each["text"] for each in EXCEPTIONS["exceptions"] if each.get("file", name) == name]
    for passage in passages(path):
        text = passage.text.replace("\n", " ")
        for start, end, fault in [*_long_sentences(text), *_words(text)]:
            quoted = text[start:end].strip()
            if not any(each in text and (each in quoted or quoted in each) for each in allowed):
                line = passage.line + passage.text[:start].count("\n")
                yield f"{name}:{line}: {quoted[:70]!r}: {fault}"


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    for pattern, instead in _PATTERNS:
        for found in pattern.finditer(text):
            yield *found.span(), instead


def _long_sentences(text: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if (n_words := len(_WORD.findall(text[start : end.end()]))) > RULES["max_words"]:
            begin = start + len(text[start:]) - len(text[start:].lstrip())
            yield begin, end.end(), f"{n_words} words; split the sentence"
        start = end.end()
