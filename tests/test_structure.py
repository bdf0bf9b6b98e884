"""The structure of the project: sizes, names, no branches on the kind of a problem; and `make clean`."""

import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tasks.problems.kinds import kinds

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")
FILES = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


@cache
def parsed(path):
    return ast.parse(path.read_text())


def relative(path):
    return path.relative_to(PROJECT).as_posix()


MOST_LINES = 80


def test_a_function_fits_on_a_screen():
    """From its docstring to its end: frameworks and users read signatures."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = [(path, node) for path in FILES for node in ast.walk(parsed(path)) if isinstance(node, kinds)]
    lines = {(relative(path), node.name): node.end_lineno - node.body[0].lineno + 1 for path, node in found}
    assert {where for where, n in lines.items() if n > MOST_LINES} == set()


def test_nobody_outside_asks_which_kind_a_problem_is_or_imports_its_source_or_measure():
    sources = "|".join(kind.source.__name__ for kind in kinds().values())
    parts = [part for kind in kinds().values() for part in (kind.source, kind.measure.measure)]
    modules = {re.escape(part.__module__) for part in parts}
    asks = rf"isinstance\([^)]*\b({sources})\b|problem\.kind ==|problem\[\"kind\"\]|kind in \("
    pattern = re.compile(rf"{asks}|(from|import) ({'|'.join(modules)})\b")
    outside = [path for path in FILES if "tasks/problems/" not in relative(path)]
    assert [relative(path) for path in outside if pattern.search(path.read_text())] == []


def test_packages_import_each_other_as_the_contracts_say():
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


OWN = {"_publish", "_bound", "_fresh", "_read"}  # of objects that our own classes make


def test_no_private_name_of_another_library_is_imported_or_read():
    pytest.importorskip("ruff")
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "PLC2701,SLF001"]
    command = [*check, "--output-format=concise", *PACKAGES]
    said = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^(\S+): .*?`(_\w+)`", said, re.MULTILINE)
    assert {name for _, name in found} >= OWN
    assert [each for each in found if each[1] not in OWN] == []


# What is made, a file of the home, and whether the home stays
CASES = [("clean", "store", True), ("clean-home", "store", False)]
CASES += [("clean-home", "ledger.key", True), ("clean-home", "ledger.sqlite", True)]


@pytest.mark.parametrize(("target", "file", "stays"), CASES)
def test_a_home_is_deleted_only_if_that_is_asked_and_it_has_no_ledger(tmp_path, target, file, stays):
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / ".dpcost").mkdir()
    (tmp_path / ".dpcost" / file).touch()
    done = subprocess.run(["make", target], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode == 0) == (target == "clean" or not stays)
    assert (tmp_path / ".dpcost" / file).exists() == stays


# What is run, how many of our modules it loads, and modules that it must not load (Ctrl-C is a traceback)
LOADED = [("import tasks.release.release", 110, ("tasks.problems", "data.datasets", "tasks.study.spec"))]
LOADED += [("import flows.study", 196, ("dpalgos.formula.fit", "reports.charts", "tasks.scorecard"))]
LISTED = "import flows.cli.main, flows.cli.catalogs; flows.cli.catalogs.studies()"
LOADED += [(LISTED, 60, ("numpy", "pandas", "prefect"))]
LOADED += [("import tasks.study.study_file", 152, ("pandas", "prefect", "scipy.stats"))]


@pytest.mark.parametrize(("code", "most", "others"), LOADED)
def test_a_command_loads_what_it_needs(code, most, others):
    command = [sys.executable, "-c", f"{code}; import sys; print('loaded', *sys.modules)"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    loaded = done.stdout.rpartition("loaded ")[2].split()
    assert [each for each in loaded if each.startswith(others)] == []
    assert len([each for each in loaded if each.partition(".")[0] in PACKAGES]) <= most


ROW_MAKERS = [
    *(f"dpalgos/formula/{name}.py" for name in ("allowed", "code", "columns", "group_table", "person_rows")),
    *(f"dpalgos/formula/{name}.py" for name in ("survival_time", "tables")),
    *(f"dpalgos/rows/{name}.py" for name in ("sample", "units")),
    *("dpalgos/survival/periods.py", "tasks/own_table/row_design.py", "tasks/release/rows.py"),
]
PRODUCTS = {"dot", "einsum", "inner", "matmul", "multi_dot", "tensordot", "vdot"}


def matrix_products(tree):
    """Yield the lines of matrix products."""
    for node in ast.walk(tree):
        is_operator = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
        if is_operator or (isinstance(node, ast.Attribute) and node.attr in PRODUCTS):
            yield node.lineno


COUNTS = {"Counter", "bincount", "drop_duplicates", "duplicated", "groupby", "nunique", "set", "unique"}
COUNTS |= {"value_counts", "unique_counts", "unique_values"}


def counted(tree):
    """Yield what is passed to a call that finds distinct values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in COUNTS:
                value = [node.func.value] if isinstance(node.func, ast.Attribute) else []
                yield from (ast.unparse(each) for each in (*value, *node.args))


def test_formulas_count_no_ids():
    """How many users there are is counted in one place, which knows that two spellings are one user.

    A second count would differ from it by one cell of the data, and with it the plan of a release.
    """
    pattern = re.compile(r"\b(user|users|user_ids|ids|person|persons|user_codes|codes|frame)\b")
    folders = ("dpalgos/formula", "dpalgos/sklearn", "tasks/own_table/row_d", "tasks/release")
    files = [path for path in FILES if relative(path).startswith(folders)]
    found = {relative(path): [*filter(pattern.search, counted(parsed(path)))] for path in files}
    assert {name: each for name, each in found.items() if each} == {}
    of_codes = re.compile(r"user_codes\([^\n]*\.max\(")
    places = {relative(path) for path in FILES if of_codes.search(path.read_text())}
    assert places == {"dpalgos/rows/units.py"}
    assert [*counted(ast.parse("np.unique(user)"))][1] == "user"
    assert [*counted(ast.parse("frame['u'].nunique()"))] == ["frame['u']"]


def test_row_products_alone_multiply_rows_of_people():
    """The last bits of a matrix product depend on the number of rows, which one person changes.

    What makes or converts rows has no matrix product. A design multiplies public rows outside its class.
    ``row_products`` itself sums each row alone.
    """
    trees = {name: parsed(PROJECT / name) for name in ROW_MAKERS}
    design = "dpalgos/formula/design.py"
    (trees[design],) = (
        node
        for node in parsed(PROJECT / design).body
        if isinstance(node, ast.ClassDef) and node.name == "FormulaDesign"
    )
    assert {name: lines for name, tree in trees.items() if (lines := [*matrix_products(tree)])} == {}
    pattern = re.compile(r"^from dpalgos\.rows\.products import .*\brow_products\b", re.MULTILINE)
    users = {relative(path) for path in FILES if pattern.search(path.read_text())}
    own = "dpalgos/central/preconditioned"  # rows that are followed over time
    assert users == {design, "dpalgos/core/rows.py", f"{own}/scores.py", f"{own}/queries.py"}
    assert [*matrix_products(ast.parse("a @ b"))] == [*matrix_products(ast.parse("np.dot(a, b)"))] == [1]
