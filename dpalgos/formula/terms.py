"""The terms of a formula: its response, products of factors, and its offset."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpalgos.errors import InputError
from dpalgos.formula.expressions import columns_of, function_of, parsed

_OFFSETS = {"offset": "{}", "exposure": "log({})"}


@dataclass(frozen=True)
class Terms:
    """The parts of a formula: its response, its terms as factors, its offset; "" where there is none.

    The intercept is the term without factors.
    """

    response: str
    terms: tuple[tuple[str, ...], ...]
    offset: str


def columns_named(formula: str, known: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that the two sides of a formula name; ``.`` stands for all others that are known."""
    found = terms_of(formula, known)
    right = [name for term in found.terms for factor in term for name in _named_in(factor, known)]
    right += _named_in(found.offset, known) if found.offset else ()
    return (columns_of(found.response) if found.response else ()), tuple(dict.fromkeys(right))


def _named_in(factor: str, known: Sequence[str]) -> tuple[str, ...]:
    return (factor,) if factor in known else columns_of(factor)


def terms_of(formula: str, declared: Iterable[str]) -> Terms:
    """Return the parts of a formula; ``exposure(x)`` is the offset log(x), and several offsets add up."""
    from formulaic.errors import FormulaicError
    from formulaic.parser import DefaultFormulaParser

    if not isinstance(formula, str) or not formula.strip():
        raise InputError(f"formula must be text such as 'cost ~ age + C(region)', got {formula!r}")
    left, tilde, right_side = formula.removeprefix("~").partition("~")
    covariates = (
        [name for name in declared if name not in columns_of(left or "0")] if tilde else list(declared)
    )
    _check_size(right_side if tilde else left, len(covariates))
    try:
        found = DefaultFormulaParser().get_terms(
            formula.removeprefix("~").replace("^", "**"),
            context={"__formulaic_variables_available__": covariates},
        )
        right = list(found.rhs if tilde else found)
        sides = [[tuple(f.expr for f in t.factors if f.expr != "1") for t in right]]
        response = [f.expr for t in found.lhs for f in t.factors] if tilde and left.strip() else []
    except (FormulaicError, AttributeError, SyntaxError, TypeError, ValueError) as error:
        reason = " ".join(re.sub(r"\x1b\[[\d;]*m", "", str(error)).split())
        raise InputError(
            f"formula must be 'response ~ terms' joined by + : * ** - /, got {formula!r} ({reason})"
        ) from None
    if len(response) > 1:
        raise InputError(f"formula must have one response, got {left.strip()!r}")
    if re.search(r"\)\s*(\*\*|\^)", right_side):  # of a power of a sum, terms of lower degree come first
        sides[0].sort(key=len)
    terms = [tuple(_unquoted(f) for f in term) for term in sides[0]]
    offsets = [each for term in terms for each in _offsets_of(term, covariates)]
    kept = tuple(term for term in terms if not any(True for _ in _offsets_of(term, covariates)))
    return Terms("".join(response), kept, " + ".join(offsets))


def _offsets_of(term: Sequence[str], declared: Sequence[str]) -> Iterator[str]:
    """Yield what is in ``offset(…)``, or the logarithm of what is in ``exposure(…)``, of a term."""
    for factor in term:
        node = parsed(factor) if factor not in declared else None
        if not isinstance(node, ast.Call) or function_of(node) not in _OFFSETS:
            continue
        if len(term) > 1 or len(node.args) != 1 or node.keywords:
            raise InputError(f"formula: {factor} must be a term of its own, got {':'.join(term)!r}")
        yield _OFFSETS[function_of(node)].format(ast.unparse(node.args[0]))


_MOST_TERMS, _LONGEST = 5_000, 20_000
_WORDS = {**dict.fromkeys("^", "**"), ":": "@"}  # as Python writes them


def _check_size(side: str, n_covariates: int) -> None:
    """Refuse a side of a formula that stands for very many terms, before any is built."""
    plain = re.sub(r"`[^`]*`", "x", side[: _LONGEST + 1])
    plain = re.sub(r"(?<![\w.)\]])\.(?![\w.])", f"({'+'.join('x' * max(n_covariates, 1))})", plain)
    plain = "".join(_WORDS.get(char, char) for char in plain)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return  # the parser of formulas says what is wrong
    if len(side) > _LONGEST or _n_terms(tree) > _MOST_TERMS:
        raise InputError(
            f"formula must stand for at most {_MOST_TERMS:,} terms, got {side.strip()[:60]!r}…, which stands "
            "for more; name fewer"
        )


def _n_terms(node: ast.expr) -> float:
    """Return how many terms a part of a formula stands for, at most."""
    if isinstance(node, ast.UnaryOp):
        return _n_terms(node.operand)
    if not isinstance(node, ast.BinOp):
        return 1
    left, right = _n_terms(node.left), node.right
    if isinstance(node.op, ast.Pow) and isinstance(right, ast.Constant) and isinstance(right.value, int):
        if right.value > left:
            raise InputError(
                f"formula: a power must be at most its number of terms, {left:g}, got {str(right.value)[:20]}"
            )
        return sum(math.comb(int(min(left, _MOST_TERMS)), k) for k in range(right.value + 1))
    both = _n_terms(right)
    if isinstance(node.op, ast.Mult):
        return left + both + left * both
    return left * both if isinstance(node.op, ast.MatMult) else left + both


def _unquoted(factor: str) -> str:
    return factor.strip("`")
