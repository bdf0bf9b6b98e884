"""Small changes of one function, found by what does not change when a variable is renamed.

A change names the calls, literals, operators and conditions of a function that it alters. Its template is
Python source; ``{0}``, ``{1}`` and keywords stand for the arguments of a call, ``{of}`` for the object whose
method or field it is, ``{left}`` and ``{right}`` for the operands of an operation, ``{all}`` for the whole.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

Found = Callable[[ast.AST], bool]


@dataclass(frozen=True)
class Change:
    """Replace the part of a function that ``matches`` by ``template``.

    Attributes
    ----------
    matches : callable
        Whether a node is the part.
    template : str
        What stands there instead.
    of : callable
        From the node that matches to the node that is replaced.
    nth : int or None
        Which of several, in the order of the source; None where there is exactly one.
    every : bool
        Replace all of them.
    """

    matches: Found
    template: str
    of: Callable[[ast.AST], ast.AST] = lambda node: node
    nth: int | None = None
    every: bool = False


def returns(template: str) -> Change:
    """Change all returned values."""
    return Change(lambda node: isinstance(node, ast.Return), template, of=lambda node: node.value, every=True)


def call(name: str, template: str, nth: int | None = None) -> Change:
    """Change a call of ``name``, a function or method."""
    return Change(lambda node: _calls(node, name), template, nth=nth)


def argument(name: str, which: int | str, template: str, nth: int | None = None) -> Change:
    """Change one argument of a call of ``name``."""
    return Change(lambda node: _calls(node, name), template, of=lambda node: _argument(node, which), nth=nth)


def number(old: float, new: float, nth: int | None = None) -> Change:
    """Change a literal number."""
    return Change(lambda node: _is_number(node) and node.value == old, repr(new), nth=nth)


def text(old: str, new: str) -> Change:
    """Change a literal string."""
    return Change(lambda node: isinstance(node, ast.Constant) and node.value == old, repr(new))


def name(old: str, template: str, *, every: bool = False, nth: int | None = None) -> Change:
    """Change a constant, a parameter, or (with a dot in front) a field of some object."""
    return Change(lambda node: _named(node, old), template, nth=nth, every=every)


def operation(mentioned: str, template: str, nth: int | None = None) -> Change:
    """Change the innermost operation or comparison in which ``mentioned`` (a name, or an operator) occurs."""
    kinds = ast.BinOp | ast.BoolOp | ast.Compare
    return Change(
        lambda node: isinstance(node, kinds) and _concerns(node, mentioned, kinds), template, nth=nth
    )


def condition(mentioned: str, template: str, nth: int | None = None) -> Change:
    """Change the condition of the innermost ``if`` whose condition or body mentions a name."""
    kinds = ast.If | ast.IfExp | ast.While | ast.comprehension
    return Change(
        lambda node: isinstance(node, kinds) and _concerns(node, mentioned, kinds),
        template,
        of=lambda node: node.ifs[0] if isinstance(node, ast.comprehension) else node.test,
        nth=nth,
    )


def without(mentioned: str, nth: int | None = None) -> Change:
    return Change(
        lambda node: isinstance(node, ast.stmt) and _concerns(node, mentioned, ast.stmt), "pass", nth=nth
    )


def value(template: str) -> Change:
    """Change the value of a constant of a module."""
    return Change(
        lambda node: isinstance(node, ast.Assign | ast.AnnAssign), template, of=lambda node: node.value
    )


_parsed = lru_cache(maxsize=1)(ast.parse)  # the changes of a file follow each other


def find(tree: ast.Module, place: str) -> ast.AST:
    inside: ast.AST = tree
    for part in place.split("."):
        found = [node for node in _below(inside, _SCOPES) if _defines(node, part)]
        if len(found) != 1:
            raise LookupError(f"{place}: {len(found)} definitions of {part!r}")
        inside = found[0]
    return inside


def changed(source: str, place: str, change: Change) -> str:
    """Return the source with the change made in that place."""
    inside = find(_parsed(source), place)
    scope = inside.body if isinstance(inside, ast.FunctionDef) else [inside]
    nodes = [node for statement in scope for node in ast.walk(statement) if change.matches(node)]
    if change.every:  # the function's own, not those of functions inside it
        nodes = [node for node in _below(inside, _SCOPES) if change.matches(node)]
    nodes.sort(key=lambda node: _span(source, change.of(node)))
    if change.nth is not None:
        nodes = nodes[change.nth : change.nth + 1]
    if not nodes or (len(nodes) > 1 and not change.every):
        raise LookupError(f"{place}: {len(nodes)} places for the change, one is needed")
    data = source.encode()
    for node in reversed(nodes):
        start, end = _span(source, change.of(node))
        data = data[:start] + _filled(source, node, change).encode() + data[end:]
    compile(data, place, "exec")
    return data.decode()


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def _below(node: ast.AST, barriers: type) -> Iterator[ast.AST]:
    """Yield the nodes below one; of those in ``barriers`` only themselves."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, barriers):
            yield from _below(child, barriers)


def _defines(node: ast.AST, wanted: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == wanted for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == wanted
    return getattr(node, "name", None) == wanted and isinstance(node, _SCOPES)


def _named(node: ast.AST, wanted: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == wanted.removeprefix(".")
    return isinstance(node, ast.Name) and node.id == wanted


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _calls(node: ast.AST, wanted: str) -> bool:
    return isinstance(node, ast.Call) and _named(node.func, wanted)


def _argument(node: ast.Call, which: int | str) -> ast.AST:
    if isinstance(which, int):
        return node.args[which]
    return next(keyword.value for keyword in node.keywords if keyword.arg == which)


_OPERATORS = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "@": ast.MatMult,
    "==": ast.Eq, "!=": ast.NotEq, ">": ast.Gt, ">=": ast.GtE, "or": ast.Or, "and": ast.And,
}  # fmt: skip


def _concerns(node: ast.AST, mentioned: str, kinds: type) -> bool:
    if mentioned in _OPERATORS:
        operators = [getattr(node, "op", None), *getattr(node, "ops", [])]
        return any(isinstance(each, _OPERATORS[mentioned]) for each in operators)
    return any(_named(one, mentioned) for one in _below(node, kinds) if not isinstance(one, kinds))


def _span(source: str, node: ast.AST) -> tuple[int, int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _filled(source: str, node: ast.AST, change: Change) -> str:
    """Return the template with the parts of the node put in."""
    if change.template == "pass":
        return "pass"
    replaced = change.of(node)

    def written(part: ast.AST) -> str:
        start, end = _span(source, part)
        return f"({source.encode()[start:end].decode()})"

    parts = {"all": written(replaced)}
    if isinstance(replaced, ast.BinOp):
        parts |= {"left": written(replaced.left), "right": written(replaced.right)}
    if isinstance(replaced, ast.BoolOp):
        parts |= {"left": written(replaced.values[0]), "right": written(replaced.values[-1])}
    if isinstance(replaced, ast.Compare):
        parts |= {"left": written(replaced.left), "right": written(replaced.comparators[-1])}
    positional: list[str] = []
    if isinstance(replaced, ast.Attribute):
        parts["of"] = written(replaced.value)
    if isinstance(replaced, ast.Call):
        positional = [written(each) for each in replaced.args]
        parts |= {each.arg: written(each.value) for each in replaced.keywords if each.arg}
        if isinstance(replaced.func, ast.Attribute):
            parts["of"] = written(replaced.func.value)
    return f"({change.template.format(*positional, **parts)})"
