"""Register the rules of ``rules.toml`` with proselint, and check passages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proselint.checks import __register__
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckResult
from proselint.registry.checks.engine import Fancy
from proselint.registry.checks.types import ExistenceSimple
from proselint.tools import LintFile

from tests.prose.passages import passages

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
RULES: dict[str, Any] = tomllib.loads((HERE / "rules.toml").read_text(encoding="utf-8"))
EXCEPTIONS: dict[str, Any] = tomllib.loads((HERE / "exceptions.toml").read_text(encoding="utf-8"))
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)[.!?][\"”)*]*(?=\s)|\s*\Z")
_WORD = re.compile(r"[^\W_]+(?:['’.,/–−^*_-]*[^\W_]+)*")


def files() -> list[Path]:
    found = {path for pattern in RULES["files"] for path in PROJECT.glob(pattern)}
    left_out = {path for pattern in RULES["generated"] for path in PROJECT.glob(pattern)}
    return sorted(found - left_out)


def check_length(text: str, check: Check) -> Iterator[CheckResult]:
    start = 0
    for end in _SENTENCE_END.finditer(text):
        n_words = len(_WORD.findall(text[start : end.end()]))
        if n_words > RULES["max_words"]:
            begin = start + len(text[start:]) - len(text[start:].lstrip())
            yield CheckResult(check.path, f"{n_words} words; {check.message}", (begin, end.end()), None)
        start = end.end()


def checks() -> tuple[Check, ...]:
    """Return the project's rules as checks of proselint."""
    words = [
        Check(
            check_type=ExistenceSimple(re.sub(" ", r"\\s+", each["pattern"])),
            engine=Fancy(),
            path="house.words",
            message=each["instead"].replace("{", "{{").replace("}", "}}"),
        )
        for each in RULES["words"]
    ]
    return (Check(check_length, path="house.length", message="split the sentence"), *words)


def faults(path: Path) -> Iterator[str]:
    """Yield ``FILE:LINE: fault`` for each fault of a file that is not excepted."""
    name = path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else path.name
    allowed = [each["text"] for each in EXCEPTIONS["exceptions"] if each.get("file", name) == name]
    config: Any = {"checks": dict.fromkeys(["house", *RULES["proselint"]], True), "max_errors": 1000}
    for passage in passages(path):
        one_line = passage.text.replace("\n", " ")
        for result in LintFile(name, one_line).lint(config):
            begin, end = (each - 1 for each in result.check_result.span)  # LintFile begins with a line break
            quoted = one_line[max(begin, 0) : end].strip()
            if any(text in one_line and (text in quoted or quoted in text) for text in allowed):
                continue
            line = passage.line + passage.text[: max(begin, 0)].count("\n")
            yield f"{name}:{line}: {quoted[:70]!r}: {result.check_result.message}"


CheckRegistry().register_many((*__register__, *checks()))
