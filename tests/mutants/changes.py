"""Plant a fault in a copy of a file: old text becomes new text, which stands once in a named function."""

import ast
from collections.abc import Iterator, Mapping

_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def lines_of(source: str, place: str) -> tuple[int, int]:
    """Return where the lines of a function, method, class or constant begin and end, by qualified name."""
    node: ast.AST = ast.parse(source)
    for part in place.split("."):
        found = [each for each in _inside(node) if _defines(each, part)]
        if len(found) != 1:
            raise LookupError(f"{place}: {len(found)} definitions of {part!r}")
        node = found[0]
    lines = source.splitlines(keepends=True)
    return len("".join(lines[: node.lineno - 1])), len("".join(lines[: node.end_lineno]))


def changed(source: str, place: str, changes: Mapping[str, str]) -> str:
    """Return the source with each old text replaced, one after the other, which must stand there once."""
    for old, new in changes.items():
        start, end = lines_of(source, place)
        if (count := source[start:end].count(old)) != 1:
            raise LookupError(f"{place}: {count} times {old!r}, once is needed")
        source = source[:start] + source[start:end].replace(old, new) + source[end:]
    compile(source, place, "exec")
    return source


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node holds, but not what functions and classes in it hold."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _inside(child)


def _defines(node: ast.AST, wanted: str) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Name) and target.id == wanted for target in targets)
    return isinstance(node, _SCOPES) and node.name == wanted
