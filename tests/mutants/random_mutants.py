"""Random mutants of estimators, sums over rows, lemmas and spending: the tests must notice each.

``python -m tests.mutants.random_mutants 40 --seed 1`` changes one place after the other in a copy of the
project: an operator, a comparison, a number, a condition, a call or a statement. The tests that enter the
changed function then run, the fastest first. A run of all tests says once which these are. A change outside
of functions meets all tests. A mutant that no test notices is printed as a survivor. It is a gap in the
tests, or a change without an effect.
"""

import argparse
import ast
import random
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shutil import copytree
from time import process_time
from types import CodeType
from typing import NamedTuple

import pytest

from tests.mutants.test_planted_faults import LEFT_OUT, MARKS, PROJECT, run_tests

FOLDERS = ("core", "rows", "mechanisms", "central", "comparators", "local", "user_level", "tuning")
_SWAPPED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*", ast.MatMult: "+"}
_COMPARED = {ast.Lt: ">=", ast.LtE: "<", ast.Gt: "<=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_COMPARED |= {ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
_OTHERS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "all": "any", "any": "all"}

SUITES = ("tests/golden", "tests/contract", "tests/dpalgos")
TIMEOUT = 1800  # seconds: a mutant may loop for ever


class Mutant(NamedTuple):
    """New text for a part of a file, by its place in bytes."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def planted(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    @property
    def compiles(self) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compile(self.planted((PROJECT / self.file).read_bytes()), self.file, "exec")
            except SyntaxError:
                return False
        return True


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    source = file.read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for node in _computing(ast.parse(source)):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        old = source[start:end].decode()
        for new in _others(node):
            yield Mutant(file.relative_to(PROJECT).as_posix(), node.lineno, start, end, old, new)


def _computing(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield what computes: no messages, annotations, decorators and declarations of keywords."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr):
                continue
            if isinstance(node, ast.ClassDef | ast.Module) and isinstance(child, ast.AnnAssign):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _computing(child)


def _others(node: ast.AST) -> Iterator[str]:
    """Yield other texts for a part of a program."""
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
        yield f"({ast.unparse(node.left)}) {_SWAPPED[type(node.op)]} ({ast.unparse(node.right)})"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        sign = _COMPARED[type(node.ops[0])]
        yield f"({ast.unparse(node.left)}) {sign} ({ast.unparse(node.comparators[0])})"
    elif isinstance(node, ast.BoolOp):
        yield f"({ast.unparse(node.values[0])})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from {repr(2 * node.value + (node.value == 0)), repr(node.value + 1)}
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield repr(not node.value)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.orelse)})"
        yield f"({ast.unparse(node.body)})"
    elif isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        module, dot, name = function.rpartition(".")
        if name in _OTHERS:
            yield f"{module}{dot}{_OTHERS[name]}{ast.unparse(node).removeprefix(function)}"
        elif node.args and not isinstance(node.args[0], ast.Starred):
            yield f"({ast.unparse(node.args[0])})"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "pass"


class Entered:
    """A plugin of pytest: which functions of the library each test enters, and its CPU seconds."""

    def __init__(self) -> None:
        self.tests: dict[tuple[str, int], set[str]] = defaultdict(set)  # by file and first line of a function
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        entered: set[CodeType] = set()
        start = process_time()
        sys.settrace(lambda frame, event, argument: entered.add(frame.f_code))
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = process_time() - start
            for code in entered:
                if code.co_filename.startswith(f"{PROJECT}/dpalgos"):
                    file = Path(code.co_filename).relative_to(PROJECT).as_posix()
                    self.tests[file, code.co_firstlineno].add(item.nodeid)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that enter the function with a mutant, the fastest first; else all tests."""
        tree = ast.parse((PROJECT / mutant.file).read_bytes())
        around = [
            min(each.lineno for each in (node, *node.decorator_list))
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line <= (node.end_lineno or 0)
        ]
        entering = self.tests.get((mutant.file, max(around, default=0)), ())
        return sorted(entering, key=self.seconds.__getitem__) or list(SUITES)


def noticed_by(folder: Path, mutant: Mutant, tests: list[str]) -> str:
    """Return which of the tests fails in the copy of the project with a mutant; "" if none."""
    path = folder / mutant.file
    whole = path.read_bytes()
    path.write_bytes(mutant.planted(whole))
    chosen = folder / "chosen_tests"
    chosen.write_text("\n".join(tests))
    try:
        status, printed = run_tests(folder, [f"@{chosen}"], timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return "time"
    finally:
        path.write_bytes(whole)
    if not status:
        return ""
    failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" ", 1)[1][:100] if failed else f"exit status {status}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    files = [path for name in FOLDERS for path in sorted((PROJECT / "dpalgos" / name).rglob("*.py"))]
    every = [one for path in files for one in mutants(path)]
    random.Random(given.seed).shuffle(every)
    chosen = list(islice((one for one in every if one.compiles), given.n))
    entered = Entered()
    if pytest.main(["-q", "-p", "no:cacheprovider", "-m", MARKS, *SUITES], plugins=[entered]):
        sys.exit("The tests fail without a mutant: mend them first.")
    survivors = 0
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "project"
        copytree(PROJECT, folder, ignore=LEFT_OUT)
        for k, one in enumerate(chosen, 1):
            seen = noticed_by(folder, one, entered.tests_of(one))
            survivors += not seen
            print(f"{k}: {one.file}:{one.line}: {one.old!r} → {one.new!r}: {seen or 'SURVIVES'}", flush=True)
    share = (given.n - survivors) / given.n
    print(f"{given.n} of {len(every):,} mutants, {survivors} survivors: {share:.0%} noticed")
    sys.exit(share < 0.9)


if __name__ == "__main__":
    main()
