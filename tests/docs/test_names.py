"""Names of code in the documentation exist: paths, modules, functions, commands, options, studies."""

import ast
import builtins
import importlib
import re
import subprocess
import tomllib
from functools import cache
from pathlib import PurePosixPath

import pytest
from typer.main import get_command

import dpalgos
from flows.cli.main import app
from flows.studies.find_study import study_names
from tests.builders import PROJECT, documented_imports

PACKAGES = ("data", "dpalgos", "flows", "reports", "tasks")
ALLOWED = tomllib.loads((PROJECT / "tests" / "docs" / "names.toml").read_text(encoding="utf-8"))
FENCE = re.compile(r"^ *(`{3,}|:{3,}).*?^ *\1", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(?<!`)(?<!\})`([^`\n]+)`(?!`)")
PATH = re.compile(rf"(?:{'|'.join((*PACKAGES, 'docs', 'tests'))})/[\w./*…-]*")
FILE = re.compile(r"[\w-]+\.(?:py|toml|jinja|css|js)")
DOTTED = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
NAME = re.compile(r"_*[A-Za-z]\w*(?:\.\w+)*(?:\(\))?")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
KEY = re.compile(r'diagnostics\["(\w+)"\]')


def test_examples_import_what_a_wheel_installs():
    lines = documented_imports()
    assert len(lines) > 20
    assert [line for line in lines if line.split()[1].partition(".")[0] not in ("dpalgos", "dpcost")] == []


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if (PROJECT / line).exists()]


FILES = tracked()
PAGES = [
    name
    for name in FILES
    if name.endswith(".md") and not name.startswith(("docs/changes/", ".github/", "CHANGELOG"))
]


def codes_of(text):
    return CODE.findall(FENCE.sub("", text))


@cache
def identifiers(name):
    """All names that a Python file defines or uses, with the words of its strings."""
    found = set()
    for node in ast.walk(ast.parse((PROJECT / name).read_text(encoding="utf-8"))):
        found |= {
            getattr(node, key)
            for key in ("name", "id", "attr", "arg")
            if isinstance(getattr(node, key, 0), str)
        }
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"\w+", node.value))
    return found


@cache
def known_names():
    found = {*dir(builtins), *study_names(), *(entry.name for entry in dpalgos.catalog())}
    for name in FILES:
        if name.endswith(".py") and not name.startswith("tests/docs/"):
            found |= identifiers(name)
        elif (
            name.endswith((".toml", ".jinja", "Makefile", ".yaml", ".service"))
            and name != "tests/docs/names.toml"
        ):
            found |= set(re.findall(r"\w+", (PROJECT / name).read_text(encoding="utf-8")))
    return found


@cache
def library_names():
    return set().union(*(identifiers(name) for name in FILES if re.fullmatch(r"dpalgos/.*\.py", name)))


@cache
def options_of(words):
    """The options of a command, by the words that call it; None if there is no such command."""
    command = get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return None
    return {option for each in command.params for option in each.opts + each.secondary_opts} | {"--help"}


@cache
def all_options():
    def below(command):
        yield from (option for each in command.params for option in each.opts + each.secondary_opts)
        for each in getattr(command, "commands", {}).values():
            yield from below(each)

    return {"--help", *below(get_command(app))}


def fault_of_path(path):
    wanted = re.sub(r"…|\*", "*", path.rstrip("/."))
    folders = {str(parent) for name in FILES for parent in PurePosixPath(name).parents}
    if any(PurePosixPath(each).match(wanted) for each in (*FILES, *folders)):
        return ""
    if "NAME" in path or path.startswith(tuple(ALLOWED["paths"])):
        return ""
    return "no such file"


def fault_of_command(code):
    words = code.split()[1:]
    group = []
    while words and re.fullmatch(r"[a-z]+", words[0]) and options_of((*group, words[0])) is not None:
        group.append(words.pop(0))
    if not group and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return "no such command"
    known = options_of(tuple(group)) if group else all_options()
    unknown = [each for each in OPTION.findall(" ".join(words)) if each not in known]
    return f"no option {unknown[0]}" if unknown else ""


def fault_of_dotted(code):
    module, names = code.removesuffix("()"), []
    while module:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
    for name in names:
        fields = getattr(found, "__dataclass_fields__", {}) | getattr(found, "model_fields", {})
        if not hasattr(found, name) and name not in fields:
            return f"{code} has no {name}"
        found = getattr(found, name, None)
    return ""


def fault_of(code):
    """What does not exist of a back-quoted text; empty if it exists or is not of this project."""
    if code.startswith("dpcost "):
        return fault_of_command(code)
    if re.fullmatch(r"--[a-z-]+", code):
        return "" if code in all_options() or code in ALLOWED["options"] else "no such option"
    if unknown := [key for key in KEY.findall(code) if key not in library_names()]:
        return f"no key {unknown[0]} of diagnostics"
    if PATH.fullmatch(code):
        return fault_of_path(code)
    if FILE.fullmatch(code):
        names = {PurePosixPath(name).name for name in FILES}
        return "" if code in names or code in ALLOWED["files"] else "no such file"
    if DOTTED.fullmatch(code):
        return fault_of_dotted(code)
    name = code.removesuffix("()")
    if NAME.fullmatch(code) and (
        "_" in name.strip("_") or re.search(r"[a-z][A-Z]", name) or code.endswith("()")
    ):
        unknown = [part for part in name.split(".") if part not in known_names()]
        return f"no name {unknown[0]}" if unknown and name not in ALLOWED["names"] else ""
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_names_of_code_in_the_documentation_exist(page):
    codes = dict.fromkeys(codes_of((PROJECT / page).read_text(encoding="utf-8")))
    assert {code: fault for code in codes if (fault := fault_of(code))} == {}


@cache
def definitions(name):
    """All names that a Python file defines: functions, classes, fields and constants."""
    found = set()
    for node in ast.walk(ast.parse((PROJECT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


ARCHITECTURE = (PROJECT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
STEPS = [line for line in ARCHITECTURE.splitlines() if re.match(r"\| \d+ \|", line)]


@pytest.mark.parametrize("row", STEPS)
def test_each_step_of_a_path_through_the_code_is_defined_in_its_file(row):
    codes = [code.removesuffix("()") for code in CODE.findall(row)]
    files = [
        name for name in FILES for code in codes if PurePosixPath(name).match(f"*{code}") and "." in code
    ]
    assert files or any((PROJECT / code).is_dir() for code in codes)
    defined = set().union(*(definitions(name) for name in files if name.endswith(".py")))
    names = [code for code in codes if NAME.fullmatch(code) and not FILE.fullmatch(code)]
    if all(name.endswith(".py") for name in files):
        assert [name for name in names if not set(name.split(".")) <= defined] == []


def test_each_table_of_the_architecture_counts_its_steps_from_1():
    numbers = [int(row.split("|")[1]) for row in STEPS]
    starts = [place for place, number in enumerate(numbers) if number == 1]
    for first, last in zip(starts, [*starts[1:], len(numbers)], strict=True):
        assert numbers[first:last] == list(range(1, last - first + 1))
    assert starts[0] == 0


def test_each_folder_and_file_of_the_floor_plan_exists():
    top, missing = "", []
    for line in FENCE.search(ARCHITECTURE)[0].splitlines()[1:-1]:
        if not line.startswith(" "):
            top = line.split()[0]
            missing += [] if (PROJECT / top).is_dir() else [top]
        for word in re.findall(r"(?<![\w./])(?:[\w]+/)+(?=\s)|[\w/]+\.(?:py|toml)\b", line):
            known = [name for name in FILES if name.startswith(top) and f"/{word}" in f"/{name}"]
            missing += [] if known else [f"{top}: {word}"]
    assert missing == []


FAULTS = [
    ("dpcost frobnicate", "no such command"),
    ("dpcost run housing --frob", "no option --frob"),
    ("--frob", "no such option"),
    ("dpalgos/frob.py", "no such file"),
    ("frob.py", "no such file"),
    ("dpalgos.frob", "dpalgos.frob has no frob"),
    ("frob_nicate", "no name frob_nicate"),
    ("FrobNicate.of", "no name FrobNicate"),
    ('result.diagnostics["frob"]', "no key frob of diagnostics"),
]


@pytest.mark.parametrize(("code", "fault"), FAULTS)
def test_a_name_that_does_not_exist_is_found(code, fault):
    assert fault_of(code) == fault
