"""Names, labels and levels, compared in one form: texts that look the same are the same."""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Set
from numbers import Number
from typing import Any

import numpy as np

from dpalgos.errors import InputError, shown

_MICRO, _MU = "\u00b5", "\u03bc"  # the micro sign and the Greek letter, which fonts draw alike


def composed(text: str) -> str:
    """Return a text with composed accents (NFC) and one of the two forms of µ."""
    return unicodedata.normalize("NFC", text).replace(_MICRO, _MU)


def as_spelled(declared: Mapping[str, Any], columns: Iterable[Any]) -> dict[str, Any]:
    """Return what is declared by column under the names of ``columns``; other names stay."""
    spelled = {composed(each): each for each in columns if isinstance(each, str)}
    check_look_different("names of declared columns", filter(lambda each: isinstance(each, str), declared))
    return {
        spelled.get(composed(name), name) if isinstance(name, str) else name: value
        for name, value in declared.items()
    }


def check_look_different(what: str, names: Iterable[str]) -> None:
    """Refuse two different names that look the same."""
    known: dict[str, str] = {}
    for name in names:
        first = known.setdefault(composed(name), name)
        if first != name:
            raise InputError(f"{what} must look different, got {first!a} and {name!a}; rename one")


def quoted(name: str) -> str:
    """Return a column's name as formulas write it."""
    return name if name.isidentifier() else f"Q({name!r})"


def check_same_order(**values: Any) -> None:
    """Refuse rows of several arguments whose indexes have the same labels in another order."""
    indexes = {name: each.index for name, each in values.items() if hasattr(each, "iloc")}
    first = next(iter(indexes), "")
    for name, index in indexes.items():
        if index.equals(indexes[first]):  # nearly always, and much cheaper than what follows
            continue
        if index.is_unique and indexes[first].is_unique and set(index) == set(indexes[first]):
            raise InputError(f"{name} must have its rows in the order of {first}, by its index; reindex it")


def check_labels(settings: Mapping[str, Any], labels: Iterable[Any], reference: str) -> None:
    """Refuse a pandas object, or a pair of some, whose labels are those of ``reference`` in another order."""
    for name, value in settings.items():
        for part in value if isinstance(value, tuple | list) else [value]:
            own = list(getattr(part, "columns", part.index)) if hasattr(part, "iloc") else []
            if own and own != list(labels) and sorted(map(str, own)) == sorted(map(str, labels)):
                raise InputError(f"{name} must have its numbers in the order of {reference}; reindex it")


def check_by_column(name: str, value: Any) -> dict[str, Any]:
    """Return a public declaration by column as a dictionary, empty for None."""
    if value is not None and not hasattr(value, "items"):
        raise InputError(f"{name} must be a dictionary by the names of columns, got {shown(value)}")
    plain = {} if value is None else dict(value.items())
    if odd := [key for key in plain if not isinstance(key, str)]:
        raise InputError(f"{name} must be by the names of columns, which are text, got {shown(odd[0])}")
    check_look_different(f"names of columns in {name}", plain)
    return plain


def as_levels(values: Any, levels: Collection[Any]) -> np.ndarray | None:
    """Return values (n,) as the levels that they equal, 1 for True; None if one equals no level."""
    known = {_comparable(level): level for level in levels}
    values, codes = np.asarray(values), None
    if values.dtype != object:
        values, codes = np.unique(values, return_inverse=True)
    try:
        plain = values.tolist()
        try:
            levels_of_values = np.fromiter(map(known.__getitem__, plain), dtype=object, count=len(values))
        except KeyError:  # a text in another Unicode form
            levels_of_values = np.fromiter(
                (known[_comparable(value)] for value in plain), object, len(values)
            )
        return levels_of_values if codes is None else levels_of_values[codes]
    except (KeyError, TypeError):  # a value that cannot be a key is no level either
        return None


def _comparable(value: Any) -> Any:
    return composed(value) if isinstance(value, str) and not value.isascii() else value


def check_levels(name: object, levels: Any) -> tuple[Any, ...]:
    """Return the public levels of a category in order; refuse missing, equal and equally written ones."""
    is_ordered = np.iterable(levels) and hasattr(levels, "__len__")
    is_ordered = is_ordered and not isinstance(levels, str | bytes | Set | Mapping)
    listed = tuple(levels) if is_ordered else ()
    are_plain = all(isinstance(each, str | Number | np.bool_) and each == each for each in listed)  # no NaN
    if not are_plain or not 2 <= len(listed) == len({composed(str(each)) for each in set(listed)}):
        raise InputError(
            f"levels must be like {{{name!r}: ['a', 'b']}}: two or more texts, numbers or truth values in "
            f"order, each written differently and none missing, got {shown(levels)}"
        )
    return listed
