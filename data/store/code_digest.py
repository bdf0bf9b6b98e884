"""A digest of the code that a result depends on, found by following imports.

The digest of a module is that of its syntax tree without docstrings, so that comments, docstrings and layout
don't matter. A result depends on the modules that compute it, on all that these import, and on the versions
of the libraries that are imported on the way.

Parsing takes most of the time, so its outcome is kept in the home, for files of the same bytes.

Two kinds of imports are not followed. What is imported for type checkers only does not run. And what is found
by its name (an estimator in the catalog, a parser, a simulator, a kind of problem) is not seen here:
the code that makes a key names it.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.folders import PROJECT_ROOT, atomic_write, home, read_json

PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")

# Packages whose modules are found by name and are so few that all of them count.
FOUND_BY_NAME = ("dpalgos.models.families", "reports.exhibits")
# Modules that import by name what a key names, see above.
NAMED_IN_KEYS = ("dpalgos.plugins", "data.simulations", "data.datasets")
# Imports inside the functions of this package serve checks and reports alone.
_REPORTS_IN_FUNCTIONS = "tasks.problems"
# Files that modules read, where a page depends on them.
_FILES = {
    "reports.pages.text": "reports/templates",
    "tasks.scorecard.claims": "flows/claims.toml",
    "data.datasets": "data/datasets",
}
_ORCHESTRATION = {"prefect", "prefect_dask", "fsspec"}  # moves results, computes none
# Libraries that another name installs: to search for it takes half a second.
_INSTALLED_BY = {"sklearn": "scikit-learn", "vl_convert": "vl-convert-python"}
_KEPT = "cache/code_digests.json"  # below the home
_NEW: set[str] = set()  # modules that this process has parsed since they were kept


@dataclass(frozen=True)
class ModuleCode:
    """A module's digest, and what it imports."""

    sha256: str  # of the syntax tree without docstrings
    imports: frozenset[str]  # modules of the project
    in_functions: frozenset[str]  # modules of the project that are imported when some function runs
    libraries: frozenset[str]  # top-level names of other packages


def code_digest(modules: Iterable[str], *, of_page: bool = False) -> str:
    """Return a sha256 over the code that modules depend on, and its libraries' versions.

    Where the result is a page, files that are shown count as well, and what kinds of problems import for
    reports.
    """
    return _code_digest(tuple(sorted(set(modules))), of_page)


@cache
def _code_digest(modules: tuple[str, ...], of_page: bool) -> str:
    closure = sorted(depended_on(modules, of_page=of_page))
    lines = [f"{name} {module_code(name).sha256}" for name in closure]
    libraries = {library for name in closure for library in module_code(name).libraries}
    lines += [f"{name} {_version(name)}" for name in sorted(libraries - _ORCHESTRATION)]
    if of_page:
        lines += [line for name in closure if name in _FILES for line in _file_lines(_FILES[name])]
    _keep_parsed()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def depended_on(modules: Iterable[str], *, of_page: bool = False) -> set[str]:
    """Return the modules of the project that are imported by some modules, directly or not, and these."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        code = module_code(name)
        waiting += code.imports
        if of_page or not name.startswith(_REPORTS_IN_FUNCTIONS):
            waiting += code.in_functions
        if name in FOUND_BY_NAME:
            waiting += [f"{name}.{path.stem}" for path in _file_of(name).parent.glob("*.py")]
        if "." in name:  # importing a module runs its package first
            waiting.append(name.rpartition(".")[0])
    return found - {f"{name}.__init__" for name in FOUND_BY_NAME}


@cache
def module_code(name: str) -> ModuleCode:
    path = _file_of(name)
    content = path.read_bytes()
    own = hashlib.sha256(content).hexdigest()
    parsed = _parsed()
    if parsed.get(name, [""])[0] != own:
        tree = _without_docstrings(ast.parse(content))
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imports = sorted(set(_imports(tree, in_function=False, package=package)))
        _NEW.add(name)
        parsed[name] = [own, hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports]
    _, sha256, imports = parsed[name]
    top: set[str] = set()
    inside: set[str] = set()
    libraries: set[str] = set()
    for imported, in_function in imports:
        if imported.partition(".")[0] not in PACKAGES:
            libraries.add(imported.partition(".")[0])
            continue
        module = imported if _file_of(imported).exists() else imported.rpartition(".")[0]
        (inside if in_function else top).add(module)
    return ModuleCode(sha256, frozenset(top), frozenset(inside), frozenset(libraries))


@cache
def _parsed() -> dict[str, Any]:
    """Return by module the sha256 of its bytes and of its tree, and its imports, as far as they are known."""
    try:
        kept = read_json(home() / _KEPT)
        known = kept["modules"].items() if kept["parser"] == _parser() else ()
        return {name: facts for name, facts in known if len(facts) == 3}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StoreError):
        return {}


def _keep_parsed() -> None:
    """Keep what is known for the next process, where a run has made the folder."""
    with suppress(OSError, StoreError):
        if _NEW and (home() / _KEPT).parent.is_dir():
            known = {"parser": _parser(), "modules": _parsed()}
            atomic_write(home() / _KEPT, json.dumps(known).encode())
            _NEW.clear()


@cache
def _parser() -> str:
    """Return what the outcome of parsing depends on but for the module itself."""
    return f"{sys.version} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}"


def forget() -> None:
    for each in (module_code, _code_digest, _parsed, _version):
        each.cache_clear()


def _imports(node: ast.AST, *, in_function: bool, package: str) -> Iterator[tuple[str, bool]]:
    """Yield what is imported below a node (of ``from a import b`` both may be meant: a.b), and where."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, in_function) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - child.level + 1], *([base] if base else [])])
            yield from ((f"{base}.{alias.name}", in_function) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from _imports(other, in_function=in_function, package=package)
        else:
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, in_function=inside, package=package)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Pass()
    return tree


def _file_of(module: str) -> Path:
    root = PROJECT_ROOT if (PROJECT_ROOT / module.partition(".")[0]).exists() else PROJECT_ROOT.parent
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


def _file_lines(name: str) -> list[str]:
    path = PROJECT_ROOT / name
    files = sorted(file for file in path.rglob("*.*") if file.suffix != ".pyc") if path.is_dir() else [path]
    return [
        f"{file.relative_to(PROJECT_ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files
    ]


@cache
def _version(library: str) -> str:
    """Return the version of a library; empty for one that is not installed or of the standard library."""
    if library in sys.stdlib_module_names:
        return ""
    with suppress(PackageNotFoundError):
        return version(_INSTALLED_BY.get(library, library))
    if find_spec(library) is None:
        return ""
    others = packages_distributions().get(library)
    return version(others[0]) if others else ""
