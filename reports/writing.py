"""Numbers, lists and sentences as people write them.

The file ``reports/templates/sentences.jinja`` has the words of computed sentences, a macro each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from data.results.table import with_form
from reports.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_SUPERSCRIPT = str.maketrans("0123456789.-+", "⁰¹²³⁴⁵⁶⁷⁸⁹·⁻⁺")
_PLURALS = {"person": "people"}


def num(value: float) -> str:
    """Write a number with three significant digits, or two below 0.1: 0.109, 0.0072, 1,230."""
    if not math.isfinite(value):
        return "∞" if value == math.inf else "−∞" if value == -math.inf else "none"
    if value == 0:
        return "0"
    if abs(value) < 1e-4 or abs(value) >= 1e6:
        return scientific(value)
    return _significant(value, 3 if abs(value) >= 0.0995 else 2)


def num_in(value: float, low: float, high: float) -> str:
    """Write a number of an interval, or an end of it, with the digits that show two of its width."""
    largest, width = max(map(abs, (value, low, high))), high - low
    if not (math.isfinite(largest) and width > 0):
        return num(value)
    digits = 2 + math.floor(math.log10(largest)) - math.floor(math.log10(width))
    if digits <= (3 if largest >= 0.0995 else 2):
        return num(value)
    if not 1e-4 <= largest < 1e6:
        return scientific(value, digits - 1)
    return f"{value:,.{max(0, 1 - math.floor(math.log10(width)))}f}".replace("-", "−")


def interval_text(low: float, high: float) -> str:
    """Write an interval: "[0.12, 0.34]"."""
    return f"[{num_in(low, low, high)}, {num_in(high, low, high)}]"


def short(value: float) -> str:
    """Write a number with two significant digits and no trailing zero: 0.5, 2, 0.035, 12."""
    if not math.isfinite(value) or value == 0 or abs(value) < 1e-4:
        return num(value)
    text = _significant(value, 2)
    return text.rstrip("0").rstrip(".") if "." in text else text


def setting(value: float) -> str:
    """Write a chosen number such as ε without rounding it: 0.5, 2, 0.125, 1,000,000."""
    if math.isinf(value):
        return "∞"
    if value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:,.6g}".replace("-", "−")


def error_bar(value: float, mean: float) -> str:
    """Write a standard error with the decimals of its mean, or one significant digit where that shows 0."""
    if not math.isfinite(value) or value <= 0 or abs(mean) >= 1e6:
        return num(value)
    decimals = len(num(mean).partition(".")[2]) if abs(mean) >= 1e-4 else 0
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) > 0:
        return text
    return scientific(value, digits=0) if value < 1e-4 else _significant(value, 1)


def scientific(value: float, digits: int = 1) -> str:
    """Write a number as 3.2 × 10⁻⁵."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return power if mantissa == "1" else f"{mantissa} × {power}".replace("-", "−")


def _significant(value: float, digits: int) -> str:
    value = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Write a share as a percentage: ``4.1%``, ``37%``."""
    return f"{short(100 * share)}%"


def span(values: Sequence[float]) -> str:
    """Write the range of the finite numbers: "2.3 to 2.9", one number if both look the same, or nothing."""
    finite = [v for v in values if math.isfinite(v)]
    return " to ".join(dict.fromkeys((num(min(finite)), num(max(finite))))) if finite else ""


def slope_text(fit: tuple[float, float]) -> str:
    """Write a slope and its standard error, if it is known: "−0.51 ± 0.02"."""
    known = f" ± {fit[1]:.2f}" if math.isfinite(fit[1]) else ""
    return f"{fit[0]:.2f}{known}".replace("-", "−")


def count_of(number: int, singular: str, plural: str = "") -> str:
    """Write "1 row", "2,345 rows"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def repaired(repairs: Iterable[Mapping[str, Any]]) -> str:
    """Say what was done to how many rows, values and people; an entry has a count, what, and done."""
    counts: dict[tuple[str, str], int] = {}
    for each in repairs:
        kind = each.get("what", "row"), each.get("done", "left out")
        counts[kind] = counts.get(kind, 0) + each["count"]
    sentences = [
        f"{count_of(number, what, _PLURALS.get(what, ''))} {repair}"
        for (what, repair), number in counts.items()
    ]
    return words(sentences) or "nothing was left out or changed"


def words(items: Iterable[str]) -> str:
    """Join words: "a, b and c"."""
    listed = list(items)
    if len(listed) <= 1:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


def printed_names(names: Sequence[str]) -> str:
    """Join the names that a paper gives its figures and tables: "Figures 2a and 2b"."""
    kinds: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        kind, _, number = name.partition(" ")
        kinds.setdefault(kind, []).append(number)
    return words(f"{kind}{'s' * (len(known) > 1)} {words(known)}" for kind, known in kinds.items())


def rule_text(rule: str, symbol: str = "n") -> str:
    """Write a rule for δ as people do: "10/n^1.1" becomes "10/n¹·¹", "1/(2*n)" becomes "1/(2n)".

    The size is called ``symbol``. A plain number is written like others: "1e-6" becomes "10⁻⁶".
    """
    if re.fullmatch(r"[\d.]+e-\d+", rule):
        return scientific(float(rule))
    text = re.sub(r"\bn\b", symbol, rule).replace("*", "")
    return re.sub(r"\^([\d.+-]+)", lambda power: power[1].translate(_SUPERSCRIPT), text)


def duration(seconds: float | None) -> str:
    """Write a length of time: "48 s", "2 min 5 s", "1 h 12 min"; empty where unknown."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    minutes, rest = divmod(rounded, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def commit_text(commit: str) -> str:
    """Write a commit in eight letters, with its mark where files differed from it: "d29f0c1a-dirty"."""
    return commit[:8] + "-dirty" * commit.endswith("-dirty")


def when(stamp: str) -> str:
    """Write an ISO 8601 time as "12 March 2026, 14:05 UTC"; empty where unknown."""
    if not stamp:
        return ""
    time = datetime.fromisoformat(stamp)
    return f"{time.day} {time:%B %Y, %H:%M %Z}".strip()


def environment(**options: Any) -> Environment:
    """Return Jinja's environment of the templates, with options of its own."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not every command writes sentences

    loader, extensions = PackageLoader("reports", "templates"), ["jinja2.ext.do"]
    env = Environment(loader=loader, extensions=extensions, undefined=StrictUndefined, **options)
    env.filters.update(
        num=num, num_in=num_in, setting=setting, words=words, count=count_of,
        when=when, percent=percent, repaired=repaired, rule=rule_text,
        printed_names=printed_names,
        error_bar=error_bar, duration=duration, commit=commit_text, with_form=with_form,
        declared=lambda value: f"{value:,.10g}".replace("-", "−"),
    )  # fmt: skip
    env.tests["finite"] = math.isfinite
    return env


@cache
def _sentences() -> Any:
    return environment().get_template("sentences.jinja").module


def render_sentence(macro: str, **values: Any) -> str:
    """Return the sentence that a macro makes of some values, as one line."""
    return " ".join(getattr(_sentences(), macro)(**values).split())


def render_lines(macro: str, **values: Any) -> list[str]:
    """Return the sentences that a macro writes, a line each."""
    return [line.strip() for line in getattr(_sentences(), macro)(**values).splitlines() if line.strip()]


def spreadsheet_text(value: Any) -> Any:
    """Return a cell of a CSV file; a text that a spreadsheet would execute gets an apostrophe in front."""
    if not isinstance(value, str):
        return value
    is_formula = re.match(r"[=@\t\r]|[+-](?![\d.,eE+\- \[\]();%*]*$)", value)
    return "'" * bool(is_formula) + visible(value)
