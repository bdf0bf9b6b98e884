"""Other libraries are used through what they document: no private name is imported, read or assigned to."""

import ast
import sys

import pytest

from data.store.folders import PROJECT_ROOT

PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def faults(source: str) -> list[str]:
    """Return what a module's source does to other libraries that they do not document."""
    tree, found = ast.parse(source), []
    known: set[str] = set()  # the name here of each thing of another library
    for node in ast.walk(tree):
        imported = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
        module = node.module or "" if isinstance(node, ast.ImportFrom) and not node.level else ""
        for alias in imported:
            origin = f"{module}.{alias.name}".lstrip(".")
            if origin.partition(".")[0] not in {*PACKAGES, *sys.stdlib_module_names}:
                known.add(alias.asname or alias.name.partition(".")[0])
                found += [f"imports {origin}"] * is_private(origin)
    for node in ast.walk(tree):
        used, targets = ast.unparse(node) if isinstance(node, ast.expr) else "", []
        if isinstance(node, ast.Attribute) and is_private(node.attr) and root(node) in known:
            found.append(f"reads {used}")
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            targets = [each for each in targets if isinstance(each, ast.Attribute | ast.Subscript)]
        if isinstance(node, ast.Call) and root(node.func) in ("setattr", "delattr"):
            targets = node.args[:1]
        found += [f"assigns to {ast.unparse(each)}" for each in targets if root(each) in known]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_uses_what_other_libraries_document(package):
    files = [
        path
        for path in (PROJECT_ROOT / package).rglob("*.py")
        if path.parts[-3:-1] != ("external", "methods")
    ]
    found = {str(path): faults(path.read_text(encoding="utf-8")) for path in files}
    assert {path: each for path, each in found.items() if each} == {}
