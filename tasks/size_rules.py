"""Rules of a study file such as ``"10/n^1.1"``: arithmetic in its sizes n, d, s, K and T, and so public."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from dpalgos.accounting.gaussian_dp import check_budget

NAMES = ("n", "d", "s", "K", "T")
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "log": math.log,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "min": min,
    "max": max,
}
_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
# "james_stein", "least squares"; names of sizes are single letters
_WORD = re.compile(r"[a-z_]{2,}( [a-z_]{2,})*")
_LONGEST = 200
_ALLOWED = f"numbers, n, d, s, K, T, + - * / ^, brackets and {', '.join(_FUNCTIONS)}"


class RuleError(ValueError):
    """A rule is wrong, in one sentence."""


def evaluate_rule(rule: str | float, sizes: Mapping[str, float], *, what: str = "a rule") -> float:
    """Return the value of the rule of a key, ``what``; refuse anything except arithmetic in sizes."""
    if not isinstance(rule, str):
        return rule
    try:
        if len(rule) > _LONGEST:
            raise RuleError(f"it has more than {_LONGEST} characters")
        value = _value(ast.parse(rule.strip().replace("^", "**"), mode="eval").body, sizes)
        if not math.isfinite(value):
            raise RuleError("its value is not finite")
    except RuleError as error:
        reason = str(error)
    except (SyntaxError, RecursionError, MemoryError, ValueError, TypeError):
        reason = "it is not arithmetic"
    except (ZeroDivisionError, OverflowError):
        reason = "its value is not finite"
    else:
        return value
    values = ", ".join(f"{name} = {value:g}" for name, value in sizes.items())
    where = f" at {values}" if values and reason.endswith("finite") else ""
    raise RuleError(f"{what} must be made of {_ALLOWED}, got {rule!r}: {reason}{where}")


def whole(rule: str | float, sizes: Mapping[str, float], *, what: str) -> int:
    """Return the value of a rule for a number of columns or the like, rounded down."""
    value = math.floor(evaluate_rule(rule, sizes, what=what) + 1e-9)
    if value < 1:
        raise RuleError(f"{what} must be at least 1, got {rule!r}, which is {value} here; take a larger one")
    return value


def evaluate_all(table: Mapping[str, Any], sizes: Mapping[str, float]) -> dict[str, Any]:
    """Return a table of keywords with its rules evaluated; plain words stay as they are."""
    rules = {key: rule for key, rule in table.items() if not _WORD.fullmatch(str(rule))}
    return {**table, **{key: evaluate_rule(rule, sizes, what=key) for key, rule in rules.items()}}


def _value(node: ast.AST, sizes: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name in sizes:
                return sizes[name]
            raise RuleError(f"{name!r} has no value here" if name in NAMES else f"{name!r} is not known")
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand, sizes))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, sizes) for argument in arguments))
        case ast.Call(func=ast.Name(id=name)):
            raise RuleError(f"{name!r} is not known")
    raise RuleError("it is not arithmetic")


def delta_at(rule: str, n: int) -> float:
    """Evaluate a rule such as ``"10/n^1.1"``, ``"1/n^2"`` or ``"1e-6"`` at n."""
    value = evaluate_rule(rule, {"n": n}, what="delta")
    if "n" not in rule:
        check_budget(1.0, value)
    return value
