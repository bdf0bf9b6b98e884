"""The language of formulas: columns, which are looked up by name, and a list of allowed functions.

A name is never parsed. Each column of a formula is replaced by an alias before anything else is read.
Therefore a column may be called ``log(b)``, ``pre-post`` or ``1``: in back-quotes, or in ``Q("…")``. A
function is allowed if it uses one row at a time. It is also allowed if it learns a mean or knots from the
public rows of :mod:`dpalgos.formula.design`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dpalgos.errors import InputError, shown
from dpalgos.spelling import composed

ELEMENTWISE = ("log", "log2", "log10", "log1p", "sqrt", "exp", "I")
LEARNED = ("center", "scale", "standardize", "poly", "bs", "cr", "cc")  # learned from public rows
CONTRASTS = ("Treatment",)  # their columns have the same name in patsy
_WHOLE_TERMS = ("C", "offset", "exposure")
CATEGORY_IN_R = ("factor", "as.factor")  # C(…)
_SPLINE = "write cr(x, df=4) for a natural cubic spline, or bs(x, df=5)"
_COLUMN = "make a column of it in the table, and declare it"
_PERSONS = "name the column of persons with user=, or user_id in a study file"
IN_R = {  # functions of R → what to write here
    **dict.fromkeys(("ns", "s", "te", "rcs", "pspline"), _SPLINE),
    **dict.fromkeys(("as.numeric", "as.integer", "cut", "ifelse"), _COLUMN),
    **dict.fromkeys(("cluster", "frailty"), _PERSONS),
    "strata": "take the column as a category, whose hazards are proportional",
    "relevel": 'write C(g, Treatment("reference"))',
    "interaction": "write a:b",
    "cbind": "a formula has one response: fit one after another",
}
SURVIVAL = "Surv"  # a response: Surv(time, event) or Surv(start, stop, event)

_NODES: tuple[type, ...] = (
    ast.Expression,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.UnaryOp,
    ast.USub,
    ast.UAdd,
    ast.BinOp,
)
_NODES += (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Call, ast.keyword, ast.Tuple, ast.List)

_STRING = r'"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'"
_NAME = r"[^\x00-/:-@\[-^`{-\x7f\s]+"  # letters of any alphabet, digits and _
_TOKEN = re.compile(
    rf"(?P<quoted>`[^`]*`|Q\(\s*(?:{_STRING})\s*\))|(?P<string>{_STRING})"
    rf"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!{_NAME}))"
    rf"|(?P<function>(?:(?:np|numpy|as)\s*\.\s*)?{_NAME}(?=\s*\())|(?P<keyword>{_NAME}(?=\s*=))"
    rf"|(?P<dotted>{_NAME}\s*\.\s*{_NAME})|(?P<name>{_NAME})|(?P<others>\.)"
    r"|(?P<mark>[-+*/:~^()\[\],=\s])|(?P<unknown>.)",
    re.DOTALL,
)
_QUOTED = re.compile(rf"`[^`]*`|{_STRING}")
_KEYWORDS = {"df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "constraints", "raw"}
_KEYWORDS |= {"ddof", "rescale", "scale", "center"}
_COUNTS = (None, *range(51))
_MOST_TERMS, _LONGEST = 2_000, 20_000


@dataclass(frozen=True)
class Reading:
    """A formula after reading: code in which each column is an alias.

    The intercept is the term without factors. ``response`` and ``offset`` are "" if there is none.
    """

    formula: str
    names: _Names
    response: str
    terms: tuple[tuple[str, ...], ...]
    offset: str

    @property
    def left(self) -> tuple[str, ...]:
        """The columns that the response uses."""
        return self.names.used(self.response)

    @property
    def right(self) -> tuple[str, ...]:
        """The columns that the terms and the offset use."""
        return self.names.used(*(factor for term in self.terms for factor in term), self.offset)


@dataclass(frozen=True)
class _Names:
    """The columns and literals of a formula by their aliases, and their spelling in the formula."""

    known: tuple[str, ...]
    letter: str
    columns: dict[str, str] = field(default_factory=dict)
    literals: dict[str, Any] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        return rf"{self.letter}\d+_"

    def used(self, *codes: str) -> tuple[str, ...]:
        """Return the columns of some code, in order."""
        aliases = (alias for code in codes for alias in re.findall(self.pattern, code))
        return tuple(dict.fromkeys(self.columns[alias] for alias in aliases if alias in self.columns))

    def spell(self, code: str) -> str:
        """Return code with the names as the formula writes them."""
        return re.sub(self.pattern, lambda alias: self.spellings[alias[0]], code)

    def canonical(self, code: str) -> str:
        """Return code with the exact quoted names of columns, and the values of literals."""

        def exact(alias: re.Match[str]) -> str:
            name = self.columns.get(alias[0])
            return repr(self.literals[alias[0]]) if name is None else f"Q({name!r})"

        return re.sub(self.pattern, exact, code)

    def alias(self, table: dict[str, Any], value: Any, spelling: str) -> str:
        for alias, known in table.items():
            if known == value and (table is self.columns or self.spellings[alias] == spelling):
                return f" {alias} "
        alias = f"{self.letter}{len(self.spellings)}_"
        table[alias], self.spellings[alias] = value, spelling
        return f" {alias} "

    def column(self, text: str, spelling: str) -> str:
        """Return the alias of the column with this name, or of the column whose name looks the same."""
        similar = [name for name in self.known if composed(name) == composed(text)]
        if text not in self.known and len(similar) > 1:
            raise InputError(
                f"formula: {text!r} may be {len(similar)} columns, whose names look the same; rename one"
            )
        return self.alias(self.columns, text if text in self.known or not similar else similar[0], spelling)


def read_formula(formula: str, known: Iterable[str], levels: Iterable[object] = ()) -> Reading:
    """Read a formula about the ``known`` columns, some of which have ``levels``.

    ``.`` means all known columns except those of the response. ``exposure(x)`` means ``offset(log(x))``.
    Several offsets add up.

    Raises
    ------
    InputError
        If the text is not a formula, or has a function or operator that is not allowed.
    """
    if not isinstance(formula, str) and "~" in str(formula):
        raise InputError(
            f"formula must be text, got a {type(formula).__name__}; pass str(formula), or from R "
            "deparse1(formula)"
        )
    if not isinstance(formula, str) or not formula.strip() or len(formula) > _LONGEST:
        raise InputError(
            f"formula must be text of at most {_LONGEST:,} letters, such as 'cost ~ age + C(region)', got "
            + shown(formula)[:60]
        )
    names, letter = tuple(known), "v"
    while any(letter in str(each) for each in (formula, *names, *levels)):
        letter += "v"
    try:
        return _read(formula, _Names(names, letter))
    except RecursionError:
        raise InputError(
            f"formula is nested too deeply, got {formula[:60]!r}…; write several terms"
        ) from None


def _read(formula: str, names: _Names) -> Reading:
    left, _, right = _aliased(formula, names).strip().rpartition("~")
    response, terms = _parsed(formula, left.strip(), right.strip(), names)
    if len(response) > 1 or (left.strip() and not names.used(*response)):
        raise InputError(f"formula must have one response, which names a column, got {formula!r}")
    offsets, others = list[str](), list[tuple[str, ...]]()
    for term in terms:
        for code in term:
            _check(code, names, formula)
        calls = [(name, arguments[0]) for name, arguments in map(call_of, term) if name in _WHOLE_TERMS[1:]]
        if calls and len(term) > 1:
            raise InputError(
                f"formula: an offset must be a term of its own, got {names.spell(':'.join(term))!r}"
            )
        others += [] if calls else [term]
        offsets += [ast.unparse(x) if name == "offset" else f"log({ast.unparse(x)})" for name, x in calls]
    for code in response:
        if call_of(code)[0] == SURVIVAL:
            _check_survival(code, names)
        else:
            _check(code, names, formula)
    return Reading(formula, names, "".join(response), tuple(others), " + ".join(offsets))


def _aliased(formula: str, names: _Names) -> str:
    """Return a formula with aliases for names, texts and unusual numbers; refuse other tokens."""
    response = set[str]()

    def replaced(token: re.Match[str]) -> str:
        kind, text = str(token.lastgroup), token[0]
        if kind == "quoted":
            if text[0] == "`":
                return names.column(text[1:-1], text[1:-1])
            inner = text[2:-1].strip()
            return names.column(ast.literal_eval(inner), f"Q({inner})")
        if kind == "string" or (kind == "number" and repr(ast.literal_eval(text)) != text):
            return names.alias(names.literals, ast.literal_eval(text), text)
        if kind == "name":
            plain = text not in names.known and text in ("True", "False", "None", *CONTRASTS)
            return text if plain else names.column(text, text)
        if kind == "function" and (name := re.sub(r"\s", "", text)) in (*CATEGORY_IN_R, *IN_R):
            if name in CATEGORY_IN_R:
                return "C"
            raise InputError(f"formula: {name}(…) of R is not known here; {IN_R[name]}")
        if kind == "others":
            others = [names.column(name, name) for name in names.known if name not in response]
            return f" ({'+'.join(others) or '0'}) "
        if kind == "dotted":
            raise InputError(
                f"formula: {text} would be read from the rows; state a public constant in its place, or, if "
                f"that is the name of a column, write it in back-quotes: `{text}`"
            )
        if kind == "unknown":
            raise _no_formula(formula)
        if text == "~":
            response.update(names.columns.values())
        return "**" if text == "^" else text

    return re.sub(_TOKEN, replaced, formula)


def _no_formula(formula: str) -> InputError:
    if operator := re.search(r"[<>]=?|[=!]=|[&%]|\b(and|or|not|if|in)\b", re.sub(_QUOTED, "", formula)):
        return InputError(
            f"formula cannot have {operator[0]}, got {formula[:200]!r}; a comparison, condition or remainder "
            "must be a column of the table: add it there with values 0 and 1, and declare it. A name with "
            'such marks goes into back-quotes or Q("…")'
        )
    if "|" in re.sub(_QUOTED, "", formula):
        return InputError(
            f"formula cannot have |, got {formula[:200]!r}; random effects are not estimated: protect each "
            "person with all rows instead, with user= or user_id, or take the group as a category"
        )
    return InputError(
        f"formula must be 'response ~ terms' joined by + : * ** - /, got {formula[:200]!r}; put a name "
        'with marks other than letters, digits and _ in back-quotes or Q("…")'
    )


def _parsed(formula: str, left: str, right: str, names: _Names) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the factors of the response, and those of each term."""
    from formulaic.errors import FormulaicError

    try:
        n_terms = _n_terms(ast.parse(right.replace(":", "@"), mode="eval").body, names)
        parsed = _parser().get_terms(f"{left or '0'} ~ {right}") if n_terms <= _MOST_TERMS else None
    except (
        FormulaicError,
        AttributeError,
        IndexError,
        MemoryError,
        SyntaxError,
        TypeError,
        ValueError,
    ) as error:
        raise error if isinstance(error, InputError) else _no_formula(formula) from None
    if parsed is None:
        raise InputError(
            f"formula must have at most {_MOST_TERMS:,} terms, got {formula[:60]!r}…; name fewer"
        )
    response = [factor.expr for term in parsed.lhs for factor in term.factors] if left else []
    return response, [tuple(each.expr for each in term.factors if each.expr != "1") for term in parsed.rhs]


@cache
def _parser() -> Any:
    """Return formulaic's parser with patsy's order of the terms of a power, without repetitions."""
    from formulaic.parser import DefaultFormulaParser, DefaultOperatorResolver

    class Operators(DefaultOperatorResolver):  # type: ignore[misc]  # it has no types
        @property
        def operators(self) -> list[Any]:
            others = [each for each in super().operators if each.symbol != "**"]
            (power,) = (each for each in super().operators if each.symbol == "**")
            settings = {"arity": 2, "precedence": power.precedence, "associativity": "right"}
            return [*others, type(power)("**", to_terms=_power, **settings)]

    return DefaultFormulaParser(operator_resolver=Operators())


def _power(terms: Any, exponent: Any) -> Any:
    """Return the terms, then their products of two, of three, and so on."""
    (number,) = (each.factors[0].expr for each in exponent)
    powers = products = list(terms)
    for _ in range(1, min(int(number), len(powers))):
        products = list(dict.fromkeys(one * other for one in terms for other in products))
        powers = [*powers, *products]
    return type(terms)(powers)


def _n_terms(node: ast.expr, names: _Names) -> float:
    """Return the maximum number of terms of a part of a formula."""
    if isinstance(node, ast.UnaryOp):
        return _n_terms(node.operand, names)
    if not isinstance(node, ast.BinOp):
        return 1
    left, right = _n_terms(node.left, names), node.right
    if isinstance(node.op, ast.Pow) and isinstance(right, ast.Constant) and isinstance(right.value, int):
        if right.value > left:
            raise InputError(
                f"formula: ** joins terms, and a power must be at most their number, {left:g}, got "
                f"{names.spell(ast.unparse(node))[:60]}; the power of a column is "
                f"I({names.spell(ast.unparse(node))[:60]})"
            )
        return sum(math.comb(int(min(left, _MOST_TERMS)), k) for k in range(right.value + 1))
    if isinstance(node.op, ast.Div) and isinstance(node.left, ast.Constant):
        raise InputError(f"formula: / joins terms, got {ast.unparse(node.left)} / …; a quotient is I(… / …)")
    both = _n_terms(right, names)
    if isinstance(node.op, ast.Mult):
        return left + both + left * both
    return left * both if isinstance(node.op, ast.MatMult) else left + both


def call_of(code: str) -> tuple[str, list[ast.expr]]:
    """Return the function that a factor calls and its arguments; "" if it is not a call."""
    node = ast.parse(code, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return "", []
    return node.func.id, [*node.args, *(each.value for each in node.keywords)]


def plain_code(code: str) -> str:
    """Return code without ``np.``, and without calls of ``C`` and ``I`` that change nothing."""
    return ast.unparse(_Plain().visit(ast.parse(code, mode="eval"))) if code else ""


class _Plain(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Name(node.attr)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_plain = isinstance(node.func, ast.Name) and node.func.id in ("C", "I")
        return node.args[0] if is_plain and len(node.args) == 1 and not node.keywords else node


def _check(code: str, names: _Names, formula: str) -> None:
    """Refuse a factor other than a column, a category, or an expression of columns and numbers."""
    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, MemoryError):
        raise _no_formula(formula) from None
    if not names.used(code):
        raise _no_formula(formula)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            _check_call(node, names, is_whole=node is tree.body)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            if not _names_a_column(node.left, names) or _names_a_column(node.right, names):
                raise InputError(
                    f"formula: {names.spell(ast.unparse(node))} must be a power of columns by a number"
                )
        elif not isinstance(node, _NODES) and id(node) not in functions:
            raise InputError(
                f"formula: {names.spell(code)!r} must be made of columns, numbers, + - * / ** and functions"
            )


def _check_survival(code: str, names: _Names) -> None:
    """Refuse a time to an event that is not made of two or three columns."""
    node, arguments = ast.parse(code, mode="eval").body, call_of(code)[1]
    columns = [names.columns.get(ast.unparse(each)) for each in arguments]
    is_call = isinstance(node, ast.Call) and not node.keywords
    if not is_call or None in columns or len(columns) not in (2, 3) or len(set(columns)) < len(columns):
        raise InputError(
            f"formula: {names.spell(code)!r} must be Surv(time, event) or Surv(start, stop, event), with the "
            "names of different columns"
        )


def _names_a_column(node: ast.AST, names: _Names) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names.columns for each in ast.walk(node))


def _check_call(node: ast.Call, names: _Names, *, is_whole: bool) -> None:
    """Refuse a function, or an argument, that is not allowed there."""
    first, others = node.args[:1], [*node.args[1:], *(each.value for each in node.keywords)]
    plain = isinstance(node.func, ast.Name)
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    text = names.spell(ast.unparse(node))
    if name in CONTRASTS and plain:
        fits = len(node.args) + len(node.keywords) <= 1
    elif name in _WHOLE_TERMS and plain:
        is_column = isinstance(first[0], ast.Name) and first[0].id in names.columns if first else False
        fits = is_whole and (is_column or (name != "C" and bool(first))) and not node.keywords
        fits = fits and len(others) <= (name == "C")
        fits = fits and all(getattr(getattr(each, "func", each), "id", "") in CONTRASTS for each in others)
    elif name in LEARNED and plain:
        counts = [*node.args[1:2], *(each.value for each in node.keywords if each.arg in ("df", "degree"))]
        fits = bool(first) and _names_a_column(first[0], names) and len(node.args) <= 4 and len(text) < 500
        fits = fits and {each.arg for each in node.keywords} <= _KEYWORDS
        fits = fits and not any(_names_a_column(each, names) for each in others)
        fits = fits and all(isinstance(each, ast.Constant) and each.value in _COUNTS for each in counts)
        fits = fits and not (name == "poly" and any(getattr(each, "value", 1) == 0 for each in counts))
    elif name in ELEMENTWISE and (plain or name != "I"):
        fits = bool(first) and not others
    else:
        known = ", ".join([*ELEMENTWISE, *LEARNED, "C"])
        raise InputError(
            f"formula: {name}(…) is not known here, or would be read from the rows; take one of {known}, or "
            "a public constant"
        )
    if not fits:
        raise InputError(f"formula: the arguments of {text} are not those that {name}(…) accepts here")
