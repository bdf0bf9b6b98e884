"""Schedules in cron notation: five fields, and a day that exists."""

import re
from calendar import monthrange

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (  # a name stands for its place from the lowest
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _WEEKDAYS),
)
_PART = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?", re.ASCII)
_LEAP_YEAR = 2024


def check_cron(text: str) -> str:
    """Return a schedule, or "" for none; refuse one that never occurs or that a server would not take."""
    if not text:
        return text
    words = text.split(" ")
    if len(words) != len(_FIELDS):
        raise ValueError(f"schedule must be five fields of cron, e.g. '0 4 * * 1', got {text!r}")
    fields = [_values(word, *field) for word, field in zip(words, _FIELDS, strict=True)]
    _, _, days, months, weekdays = fields
    longest = max(monthrange(_LEAP_YEAR, month)[1] for month in months)
    if len({each % 7 for each in weekdays}) == 7 and min(days) > longest:
        raise ValueError(f"schedule must have a day that exists, got {text!r}; correct day or month")
    return text


def _values(word: str, name: str, lowest: int, highest: int, names: tuple[str, ...]) -> set[int]:
    """Return the values of a field."""
    number_of = {each: str(number) for number, each in enumerate(names, lowest)}
    values: set[int] = set()
    for part in word.split(","):
        found = _PART.fullmatch(part)
        ends = (
            [number_of.get(each.lower(), each) for each in found.group("low", "high") if each]
            if found
            else []
        )
        if found is None or found["step"] == "0" or not all(each.isdigit() for each in ends):
            raise ValueError(_fault(name, lowest, highest, part))
        low, high = (int(ends[0]), int(ends[-1])) if ends else (lowest, highest)
        if len(ends) == 1 and found["step"]:
            high = highest
        if not lowest <= low <= high <= highest:
            raise ValueError(_fault(name, lowest, highest, part))
        values.update(range(low, high + 1, int(found["step"] or 1)))
    return values


def _fault(name: str, lowest: int, highest: int, part: str) -> str:
    return (
        f"schedule: {name} must be numbers from {lowest} to {highest}, as 1, 1-5, */2 or 1,3, got {part!r}; "
        "correct the field"
    )
