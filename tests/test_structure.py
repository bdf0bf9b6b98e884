"""The structure of the project: sizes, one name for one thing, no branches on the kind of a problem."""

import ast
import re
from collections import Counter
from dataclasses import fields
from functools import cache
from pathlib import Path

import dpalgos
from tasks.problems.kinds import kinds

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")
FILES = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


@cache
def parsed(path):
    return ast.parse(path.read_text())


def relative(path):
    return path.relative_to(PROJECT).as_posix()


# Where a plugin is a file, more are welcome.
PLUGINS = {"dpalgos/central", "dpalgos/comparators", "dpalgos/nonprivate", "dpalgos/local"} | {
    "dpalgos/user_level",
    "tasks/problems/sources",
    "data/datasets",
    "reports/exhibits",
}
MOST_FILES = 15


def test_no_folder_holds_many_files():
    counted = Counter(relative(path.parent) for path in FILES)
    assert {folder: n for folder, n in counted.items() if n > MOST_FILES and folder not in PLUGINS} == {}


MOST_LINES = 80


def test_a_function_fits_on_a_screen():
    """From its docstring to its end: frameworks and users read signatures."""
    long = [
        (relative(path), node.name, lines)
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := node.end_lineno - node.body[0].lineno + 1) > MOST_LINES
    ]
    assert long == []


MOST_PARAMETERS = 6
# Users call these by keyword, and study files name the settings of a simulation.
CALLED_BY_KEYWORD = {
    "data/simulations/paper_models.py": {"shaped_regression", "uniform_regression"},
    "dpalgos/api.py": {"estimate"},
    "dpalgos/audit/foreign.py": {"audit_callable"},
    "dpalgos/audit/lower_bound.py": {"audit"},
    "dpalgos/rows/sample.py": {"__init__"},
    "flows/cli/audit.py": {"audit"},
    "flows/cli/init.py": {"init"},
    "flows/cli/publish.py": {"figure"},
    "flows/cli/release.py": {"release"},
    "flows/cli/runs.py": {"run", "rerun"},
}
# A value object or fewer duties would serve them; nothing is added here.
TOO_MANY = {
    "dpalgos/intervals/half_widths.py": {"interval_by_variance"},
    "dpalgos/mechanisms/clip_levels.py": {"search_by_counts"},
    "dpalgos/mechanisms/noisy_iht.py": {"noisy_iht"},
    "dpalgos/tuning/quantiles.py": {"exponential_quantiles"},
    "dpalgos/mechanisms/preconditioned/steps.py": {"released_steps"},
    "dpalgos/mechanisms/selected_steps.py": {"selected_steps"},
    "dpalgos/mechanisms/top_k.py": {"gumbel_top_k", "noisy_top_k"},
    "dpalgos/models/normal_curvature.py": {"newton_step"},
    "dpalgos/tuning/sparsity.py": {"with_chosen_sparsity"},
    "dpalgos/user_level/aggregation.py": {"__init__"},
}


def test_a_function_has_few_parameters():
    found = {
        (relative(path), node.name)
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if len({each.arg for each in (*node.args.args, *node.args.kwonlyargs)} - {"self", "cls"})
        > MOST_PARAMETERS
    }
    listed = {**CALLED_BY_KEYWORD, **TOO_MANY}
    assert found == {(path, name) for path, names in listed.items() for name in names}


def classes():
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, relative(path)


def test_no_two_classes_share_a_name():
    places: dict[str, list[str]] = {}
    for name, path in classes():
        places.setdefault(name, []).append(path)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def kind_words():
    names = {kind.source.__name__ for kind in kinds().values()}
    return re.compile(
        rf"isinstance\([^)]*\b({'|'.join(sorted(names))})\b|problem\.kind ==|problem\[\"kind\"\]|kind in \("
    )


def test_nobody_outside_asks_which_kind_a_problem_is():
    pattern, found = kind_words(), []
    for path in FILES:
        if "tasks/problems/" not in relative(path):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if pattern.search(line):
                    found.append(f"{relative(path)}:{number}: {line.strip()}")
    assert found == []


def test_nobody_outside_imports_a_source_or_a_measure():
    modules = {
        module
        for kind in kinds().values()
        for module in (kind.source.__module__, kind.measure.measure.__module__)
    }
    found = [
        (relative(path), module)
        for path in FILES
        if "tasks/problems/" not in relative(path)
        for module in modules
        if re.search(rf"(from|import) {re.escape(module)}\b", path.read_text())
    ]
    assert found == []


NEEDED_FROM_CALLERS = {
    "row_bound": "paper C, where rows are known to be shorter than their box allows",
    "response_moment": "paper C's bound of responses with heavy tails",
}


def test_a_setting_is_used_by_a_study_the_league_a_page_or_a_command():
    """A setting that nothing sets is a constant with its reason beside it."""
    places = [(package, "*.py") for package in PACKAGES if package != "dpalgos"]
    places += [("flows", "*.toml"), ("docs", "*.md")]
    used = {
        word
        for folder, pattern in places
        for path in (PROJECT / folder).rglob(pattern)
        for word in re.findall(r"\w+", path.read_text())
    }
    settings = {item.name for entry in dpalgos.catalog() for item in fields(entry.parameters)}
    assert settings - used == set(NEEDED_FROM_CALLERS)
