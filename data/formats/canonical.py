"""The canonical form of a table's cells: equal for equal data in CSV and in Parquet, with any type.

A cell is

- missing: a null, NaN, empty or blank text, or one of `MISSING` that is not a declared level;
- a number of any type, or text that is a decimal number: ``7``, ``7.0`` and ``"007"`` are one number. In a
  column of categories, text with an exponent, a plus sign or infinity is text: ``1E2`` is not ``100``;
- otherwise text, without surrounding blanks, in one Unicode form and with one form of µ. Moments,
  durations and truth values have one notation.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Markers of a missing value that programs write, in lower case.
MISSING = (
    *("", "na", "n/a", "<na>", "#na", "#n/a", "#n/a n/a", "null", "none", "nat"),
    *("nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
)
NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)$"
CODE = r"^-?(\d+\.?\d*|\.\d+)$"  # a number as codes of categories are written
MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)?(?:(?:^|(?<=\d)[ t])(\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?)?(z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_BINARY = (
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view),
)
LARGEST_WHOLE = 2.0**53  # from it on two whole numbers may be one in double precision
_FEW_CELLS = 64
DURATION = re.compile(r"-?\d+ days?( .*)?", re.ASCII)


@dataclass(frozen=True)
class Cells:
    """A column in canonical form."""

    numbers: npt.NDArray[np.float64]  # (n,), NaN where the cell is not a number
    texts: npt.NDArray[np.int64]  # (n,), indices into values; -1 where the cell is not text
    values: list[str]  # each text in its canonical notation

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """True for cells that are neither a number nor text."""
        return np.isnan(self.numbers) & (self.texts < 0)


class CanonicalBatch:
    """Rows of a file, with the canonical form of their columns, which is computed once."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows
        self._cells: dict[tuple[str, bool, tuple[str, ...]], Cells] = {}

    def cells(self, name: str, levels: Collection[str] = ()) -> Cells:
        """Return `canonical_cells` of a column; with ``levels``, of a column of categories.

        A level matters only if it also stands for a missing cell.
        """
        key = name, bool(levels), tuple(level for level in levels if level.strip().lower() in MISSING)
        if key not in self._cells:
            self._cells[key] = canonical_cells(self.rows.column(name), key[2], has_codes=key[1])
        return self._cells[key]


def canonical_cells(column: pa.Array, levels: Collection[str] = (), *, has_codes: bool = False) -> Cells:
    """Return a column of any type in canonical form; raise `TypeError` for nested types such as lists.

    A cell that equals one of the declared ``levels`` is text, even if it has another meaning elsewhere. With
    ``has_codes``, the column is one of categories.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return canonical_cells(column.dictionary_decode(), levels, has_codes=has_codes)
    if getattr(kind, "extension_name", "") == "arrow.uuid":
        column = pa.array([None if each is None else str(each) for each in column.to_pylist()], pa.string())
    elif isinstance(kind, pa.BaseExtensionType):
        return canonical_cells(column.storage, levels, has_codes=has_codes)
    kind = column.type
    if pa.types.is_nested(kind):
        raise TypeError(f"cells of type {kind} have no canonical form")
    if pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Cells(_doubles(column), np.full(len(column), -1), [])
    if pa.types.is_duration(kind):
        text = pa.array([None if each is None else _duration(each) for each in column.to_pylist()])
    elif any(is_kind(kind) for is_kind in _BINARY):
        text = pa.array([None if each is None else _decoded(each) for each in column.to_pylist()])
    else:
        text = _plain_decimals(column) if pa.types.is_decimal(kind) else column
        if not has_codes and not levels and (plain := _plain_numbers(text)) is not None:
            return Cells(plain, np.full(len(plain), -1), [])
    return _text_cells(text.cast(pa.string()), [level.strip() for level in levels], _number(has_codes))


def _plain_decimals(column: pa.Array) -> pa.Array:
    """Return decimals as text without exponents: a small one is the same category as in a CSV file."""
    encoded = column.dictionary_encode()
    texts = [f"{each:f}" for each in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string())).dictionary_decode()


def written_text(column: pa.Array) -> pa.StringArray | None:
    """Return the cells of a column of text of any type as they are written; None for other types."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if any(is_kind(column.type) for is_kind in _BINARY):
        return pa.array(
            [None if each is None else _decoded(each) for each in column.to_pylist()], pa.string()
        )
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return column.cast(pa.string()) if any(is_text(column.type) for is_text in texts) else None


def storage_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _number(has_codes: bool) -> str:
    return CODE if has_codes else NUMBER


def meanings(texts: Sequence[str], *, has_codes: bool = False) -> list[str | float]:
    """Return the canonical form of each declared text: a number or text, as `canonical_cells` has it."""
    stripped = [text.strip() for text in texts]
    return [
        float(text) if re.match(_number(has_codes), text.lower(), re.ASCII) else _canonical_text(text)
        for text in stripped
    ]


def comparable(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the numbers rounded to single precision; copies stored in single precision then agree.

    This includes whole numbers with more bits: their text in single precision is shorter too.
    """
    size = np.abs(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = numbers.astype(np.float32).astype(np.float64)
    if (far := ((size > 1e38) | (size < 1e-37)) & (size > 0)).any():  # outside the range of single precision
        mantissa, exponent = np.frexp(numbers[far])
        rounded[far] = np.ldexp(mantissa.astype(np.float32).astype(np.float64), exponent)
    rounded += 0.0  # -0 becomes 0
    rounded[np.isnan(numbers)] = np.nan  # one bit pattern of many
    return rounded


def _doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return numbers in double precision: 0.1 in single precision is 0.1, as a declaration writes it."""
    if pa.types.is_float16(column.type):
        narrow = column.to_numpy(zero_copy_only=False).astype(np.float16)
        return np.asarray(narrow.astype(str).astype(np.float64))
    if pa.types.is_float32(column.type):
        column = column.cast(pa.string())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _plain_numbers(text: pa.Array) -> npt.NDArray[np.float64] | None:
    """Return text as numbers by a fast path if every cell is null, empty or a plain decimal number.

    Return None otherwise. The caller then checks cell by cell, because the library's NaN may be text.
    """
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        return None
    # A cast that fails takes as long as all its errors: a column of text is recognized by a few cells.
    if len(text) > _FEW_CELLS and _cast(text[:_FEW_CELLS]) is None:
        return None
    numbers = _cast(text)
    if numbers is None:
        return None
    if not pc.all(pc.is_finite(numbers)).as_py() and numbers.null_count < len(numbers):
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def _cast(text: pa.Array) -> pa.Array | None:
    is_empty = pc.equal(text, "")
    if pc.any(is_empty).as_py():
        text = pc.if_else(is_empty, pa.scalar(None, text.type), text)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def _text_cells(text: pa.StringArray, levels: Collection[str], number: str) -> Cells:
    encoded = text.dictionary_encode()
    rows = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    stripped = pc.utf8_trim_whitespace(encoded.dictionary)
    lower = pc.utf8_lower(stripped)
    are_numbers = pc.match_substring_regex(lower, number)
    parsed = _parse(pc.if_else(are_numbers, lower, pa.scalar(None, pa.string())))

    are_levels = pc.is_in(stripped, pa.array(levels, pa.string()))
    are_missing = pc.and_not(pc.is_in(lower, pa.array(MISSING)), are_levels)
    are_texts = pc.invert(pc.or_(are_numbers, are_missing))
    known: dict[str, int] = {}
    codes = np.full(len(stripped) + 1, -1)  # the last one is that of a null
    at = np.flatnonzero(are_texts.to_numpy(zero_copy_only=False))
    for i, value in zip(at, stripped.filter(are_texts).to_pylist(), strict=True):
        codes[i] = known.setdefault(_canonical_text(value), len(known))
    return Cells(np.append(parsed, np.nan)[rows], codes[rows], list(known))


def _parse(numbers: pa.StringArray) -> npt.NDArray[np.float64]:
    try:
        parsed = pc.utf8_ltrim(numbers, characters="+").cast(pa.float64())
    except pa.ArrowException:  # outside the range of a double
        parsed = pa.array(
            [None if each is None else float(each) for each in numbers.to_pylist()], pa.float64()
        )
    return np.asarray(parsed.to_numpy(zero_copy_only=False), dtype=np.float64)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _canonical_text(value: str) -> str:
    """Return one notation for all texts with the same moment, duration, truth value or text."""
    lower = value.lower()
    if lower in ("true", "false"):
        return lower
    if DURATION.fullmatch(lower):
        try:
            return _duration(value)
        except ValueError:
            pass
    return _moment(lower) or composed(value)


def composed(text: str) -> str:
    """Return a text with composed accents (NFC) and one of the two forms of µ, as in formulas.

    `dpalgos` has the same function, because the two packages never import each other.
    """
    return unicodedata.normalize("NFC", text).replace("\u00b5", "\u03bc")


def _moment(text: str) -> str | None:
    """Return a date, a time of day or both in one notation; a time with a zone becomes universal time."""
    match = MOMENT.fullmatch(text)
    if not match or not (match[1] or match[2]) or (match[5] and not match[2]):
        return None
    day, minute, second, fraction, zone = match.groups(default="")
    try:
        moment = datetime.fromisoformat(f"{day or '2000-01-01'}T{minute or '00:00'}{second or ':00'}+00:00")
    except ValueError:
        return None
    if zone not in ("", "z"):
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        shift = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
        try:
            moment -= shift
        except OverflowError:
            return None
    seconds = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S")
    return f"{seconds}.{fraction.rstrip('0')}".rstrip(".")


def _duration(value: timedelta | str) -> str:
    from pandas import Timedelta  # imported here: commands of the ledger start without pandas

    return str(Timedelta(value))
