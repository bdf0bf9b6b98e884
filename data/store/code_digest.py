"""A digest of the code that a result depends on: whole packages, and the plugins that the result uses.

A plugin is a file that the program finds by name: an estimator, a dataset, a simulator, a kind of problem. A
result depends on the plugins in its key and on those that they import. It also depends on all other files of
the packages that compute it, and on the versions of the libraries. A change of such a file changes the
digest.
"""

import dis
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

from data.store.folders import PROJECT_ROOT

PLUGINS = (
    *("dpalgos/central", "dpalgos/comparators", "dpalgos/local", "dpalgos/nonprivate", "dpalgos/user_level"),
    *("data/datasets", "data/simulations"),
    *("tasks/problems", "tasks/problems/sources", "tasks/problems/measures", "tasks/own_table"),
)
TABLES = ("data",)
NUMBERS = (*TABLES, "dpalgos", "tasks", "reports/results.py")
_OF_ONE_PACKAGE = {"data": TABLES, "dpalgos": ("dpalgos",)}
PAGES = (*NUMBERS, "reports", "flows/claims.toml")
# Files that neither compute nor show a number.
_ELSEWHERE = ("data/ledger", "tasks/release", "dpalgos/sklearn")
_ON_PAGES_ALONE = ("tasks/report", "tasks/scorecard", "tasks/advice", "dpalgos/theory.py")
LIBRARIES = (
    *("numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "statsmodels", "formulaic"),
    *("opendp", "dp-accounting"),
)
OF_PAGES = ("vl-convert-python", "jinja2")
_SUFFIXES = {".py", ".toml", ".jinja", ".css", ".js", ".json", ".md"}


def code_digest(modules: Iterable[str], *, of_page: bool = False) -> str:
    """Return a sha256 over everything that results of some modules depend on.

    If all modules are in the package `data`, the results are tables. Results of `dpalgos` alone depend
    on no other package. `of_page` means that the results are pages.
    """
    return _code_digest(tuple(sorted(set(modules))), of_page)


@cache
def _code_digest(modules: tuple[str, ...], of_page: bool) -> str:
    roots = {name.partition(".")[0] for name in modules}
    packages = PAGES if of_page else _OF_ONE_PACKAGE.get(min(roots) if len(roots) == 1 else "", NUMBERS)
    files = {path for package in packages for path in _files(package, of_page)}
    for path in map(file_of, modules):
        files |= set() if path in files else set(_with_imports(path))
    lines = [f"{path.name} {_sha256(path)}" for path in sorted(files)]
    lines += [f"{name} {_version(name)}" for name in (*LIBRARIES, *(OF_PAGES if of_page else ()))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def file_of(module: str) -> Path:
    """Return the file of a module or of a plugin; it need not exist."""
    path = _root(module.partition(".")[0]).joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")
    if path.exists():
        return path
    with suppress(ImportError, ValueError):
        if (spec := find_spec(module)) and spec.origin:
            return Path(spec.origin)
    return path


@cache
def _files(package: str, of_page: bool) -> frozenset[Path]:
    """Return the files of a package or of one of its folders, except plugins."""
    root = _root(package.partition("/")[0])
    left_out = {root / name for name in (*PLUGINS, *_ELSEWHERE, *(() if of_page else _ON_PAGES_ALONE))}
    folder_or_file = root / package
    paths = folder_or_file.rglob("*") if folder_or_file.is_dir() else [folder_or_file]
    return frozenset(
        path
        for path in paths
        if path.suffix in _SUFFIXES
        and "out" not in path.relative_to(root).parts
        and (left_out.isdisjoint((path, *path.parents)) or path.name == "__init__.py")
    )


def _with_imports(path: Path, known: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield the file of a plugin, and the files of the plugins that it imports."""
    yield path
    for other in _imported_plugins(path) - known:
        yield from _with_imports(other, known | {path})


@cache
def _imported_plugins(path: Path) -> frozenset[Path]:
    modules: list[str] = []
    with suppress(OSError, SyntaxError, ValueError):  # importing the plugin reports the fault
        modules += _imported(compile(path.read_bytes(), path, "exec"))
    return frozenset(
        file_of(name) for name in modules if name.replace(".", "/").rpartition("/")[0] in PLUGINS
    )


def _imported(code: CodeType) -> Iterator[str]:
    """Yield the names of imported modules and objects, including imports in functions.

    Two threads must not build syntax trees at once: CPython 3.11 then raises a SystemError.
    """
    module = ""
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            yield (module := each.argval)
        elif each.opname == "IMPORT_FROM":
            yield f"{module}.{each.argval}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imported(constant)


def _root(package: str) -> Path:
    """Return the parent folder of a package: in a wheel, `dpalgos` is next to the application's folder."""
    return PROJECT_ROOT if (PROJECT_ROOT / package).exists() else PROJECT_ROOT.parent


@cache
def _sha256(path: Path) -> str:
    with suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


@cache
def _version(library: str) -> str:
    with suppress(PackageNotFoundError):
        return version(library)
    return ""
