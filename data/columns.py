"""Columns of tables with their public facts, and the declaration of an analyst's table."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field, InstanceOf, PlainSerializer, model_validator

from data.errors import DataError
from data.formats.canonical import LARGEST_WHOLE, meanings

Text = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]  # neither "0.5" nor true
MOST_FAULTS = 5  # that one sentence names
# What data files often hold for "not asked", "refused" or "does not know".
_CODES = (-9999, -999, -200, -99, -9, -8, -7, -1, 7, 8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 9999)


@runtime_checkable
class Derived(Protocol):
    """Columns that are computed row by row from other columns, with public constants."""

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns from which they are computed."""

    @property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that determine most of each column's values."""

    @property
    def described(self) -> Mapping[str, Any]:
        """Everything that determines their values, as plain data."""

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of a time to an event, if it is their response."""

    @property
    def counts_missing(self) -> tuple[str, ...]:
        """The declared columns whose missing cells they count: NaN or "" in the rows."""

    @property
    def joins_rows(self) -> bool:
        """Whether they are computed from all rows of a person together, once the file is read."""

    def uses_of(self, name: str) -> tuple[str, ...]:
        """Return the declared columns from which one of them is computed."""

    def values(self, rows: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return their values (n,) by name, from numbers and the levels of categories."""


@dataclasses.dataclass(frozen=True)
class Column:
    """One column and its public facts.

    It holds numbers with bounds, or text with categories. Columns of datasets are numbers. If a column has
    categories, each except the first becomes an indicator column.

    Attributes
    ----------
    name, dtype, unit : str
        `dtype` is ``"float64"`` or ``"int64"``; ``"float32"`` for a feature of frames.
    lower, upper : float
        Public bounds of numbers, infinite for categories. A dataset with a value outside them is refused.
    source : str
        Where the bounds, categories and units come from.
    center, scale : float or None
        Public units ``(value - center) / scale``, or None if none were chosen.
    categories : tuple of str
        All categories of text; the first is the reference.
    levels : mapping
        Categories with all spellings of each.
    others : str
        The category of unlisted text; ``""``: unlisted text is refused.
    transform : {"", "log"}
        Whether the column is replaced by its logarithm; `center` and `scale` are then of the logarithm.
    impute : float, str or None
        The public constant that replaces a missing value; None: the table's rule.
    missing : tuple of str
        Markers of a missing value, in addition to blanks and common markers.
    periods : tuple of float
        Public cut points of a time to an event.
    resolution : float or None
        The public number of which recorded times to an event are multiples.
    derived : Derived or None
        Computes the column from others; it is then in no file.
    """

    name: Text
    dtype: Literal["float64", "int64", "float32"]
    unit: str
    lower: Annotated[float, Field(strict=True)]
    upper: Annotated[float, Field(strict=True)]
    source: Text
    center: Number | None = None
    scale: Annotated[Number, Field(gt=0)] | None = None
    _: dataclasses.KW_ONLY
    categories: tuple[Text, ...] = ()
    levels: Mapping[Text, tuple[Text, ...]] = dataclasses.field(default_factory=dict)
    others: str = ""
    transform: Literal["", "log"] = ""
    impute: Number | str | None = None
    missing: tuple[Text, ...] = ()
    periods: tuple[Number, ...] = ()
    resolution: Annotated[Number, Field(gt=0)] | None = None
    derived: Annotated[
        InstanceOf[Derived] | None, PlainSerializer(lambda each: each and dict(each.described))
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _levels_name_categories(cls, plain: Any) -> Any:
        if isinstance(plain, dict) and isinstance(plain.get("levels"), dict) and "categories" not in plain:
            return {**plain, "categories": list(plain["levels"])}
        return plain

    @model_validator(mode="after")
    def _facts_agree(self) -> Self:
        (self._check_categories if self.categories else self._check_numbers)()
        return self

    def _check_categories(self) -> None:
        name, levels = self.name, self.categories
        if not math.isinf(self.upper - self.lower) or self.center or self.scale or self.transform:
            raise ValueError(f"{name!r} has categories and bounds; keep one of them")
        if len(set(levels)) < max(2, len(levels)) or "" in map(str.strip, levels):
            raise ValueError(
                f"categories of {name!r} must be two or more different texts, got {list(levels)}"
            )
        if odd := [level for level in self.levels if level not in levels]:
            raise ValueError(f"levels of {name!r} must be among its categories, got {odd[0]!r}")
        self._check_texts_differ()
        for fact, level in (("impute", self.impute), ("others", self.others or None)):
            if level is not None and level not in levels:
                raise ValueError(f"{fact} of {name!r} must be one of its categories, got {level!r}")

    def _check_texts_differ(self) -> None:
        """Refuse a text that means two categories, or a category and a missing cell."""
        pairs = {(text, level) for level, own in self.levels.items() for text in own}
        texts = [(level, level) for level in self.categories] + sorted(pairs)
        texts += [(text, "a missing cell") for text in self.missing]
        meant: dict[str | float, tuple[str, str]] = {}
        for text, (spelling, level) in zip(
            meanings([text for text, _ in texts], has_codes=True), texts, strict=True
        ):
            if isinstance(text, float) and LARGEST_WHOLE <= abs(text) < math.inf:
                raise ValueError(
                    f"{self.name!r} must have codes below 2^53, got {spelling!r}, which is not told from its "
                    "neighbors; put a letter before each code in the file"
                )
            other, before = meant.setdefault(text, (spelling, level))
            if before != level:
                raise ValueError(
                    f"{self.name!r} must have each text once among categories, levels and missing, where 7, "
                    f"07 and 7.0 are the same, got {other!r} and {spelling!r}; take one out, or put a letter "
                    "before each code in the file"
                )

    def _check_numbers(self) -> None:
        name = self.name
        if self.others:
            raise ValueError(f"others of {name!r} needs categories, got none; remove it")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError(f"{name!r} needs finite lower and upper, or categories; add one of them")
        if not self.lower < self.upper:
            raise ValueError(f"{name!r}: lower must be below upper, got {self.lower:g} and {self.upper:g}")
        if self.transform and not self.lower > 0:
            raise ValueError(f"{name!r}: lower must be above 0 for transform = 'log', got {self.lower:g}")
        low, high = self.transformed_bounds
        if self.center is not None and not self.derived and not low <= self.center <= high:
            raise ValueError(
                f"{name!r}: center must lie within its bounds {low:g} and {high:g}"
                f"{' on the log scale' * bool(self.transform)}, got {self.center:g}; correct it"
            )
        if isinstance(self.impute, str):
            raise ValueError(f"impute of {name!r} must be a number, got {self.impute!r}")
        if self.impute is not None and not self.lower <= self.impute <= self.upper:
            raise ValueError(f"impute of {name!r} must lie within its bounds, got {self.impute:g}")

    def cut_codes(self, *, below: bool = True, above: bool = True) -> str:
        """Return common codes of missing cells outside the bounds of numbers; none if some are declared."""
        if self.categories or self.missing or self.derived or self.transform:
            return ""
        lower = [code for code in _CODES if code < min(self.lower, 0)][-5:]
        upper = [code for code in _CODES if code > max(self.upper, 0)][:5]
        return ", ".join(map(str, [*lower * below, *upper * above]))

    @classmethod
    def in_units(cls, name: str, center: float = 0.0, scale: float = 1.0) -> "Column":
        """Return a column of which only its public units matter; by default its numbers are unchanged."""
        return cls(name, "float64", "", -math.inf, math.inf, "", center, scale)

    @property
    def transformed_bounds(self) -> tuple[float, float]:
        if self.transform:
            return math.log(self.lower), math.log(self.upper)
        return self.lower, self.upper

    @property
    def is_zero_to_one(self) -> bool:
        return (self.lower, self.upper) == (0, 1)

    @property
    def uses(self) -> tuple[str, ...]:
        """The columns of the file that it is made from: itself, unless it is derived."""
        return self.derived.uses_of(self.name) if self.derived else (self.name,)

    @property
    def spellings(self) -> dict[str, str]:
        """Each text that means a category, with the category."""
        listed = {text: level for level, texts in self.levels.items() for text in texts}
        return listed | {level: level for level in self.categories}

    @property
    def term(self) -> str:
        """Its name in a model: its own, or that of its logarithm."""
        return f"log({self.name})" if self.transform else self.name

    @property
    def table_columns(self) -> tuple[str, ...]:
        """Its columns as a covariate: its term, or one for each category except the first."""
        if not self.categories:
            return (self.term,)
        return tuple(f"{self.name}={category}" for category in self.categories[1:])

    @property
    def imputed(self) -> float:
        return float(self.categories.index(str(self.impute)) if self.categories else self.impute or 0.0)

    def values(self, table: Any) -> npt.NDArray[np.float64]:
        """Return its values (n,) in public units, from a table of columns by name."""
        return np.asarray((table[self.name] - self.center) / self.scale, dtype=np.float64)


def rows_in_units(
    table: Any, columns: Iterable[Column], response: Column | None, *, intercept: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Return X (n, k) and the response (n,) of a table in public units; an intercept is the last column."""
    X = np.column_stack([column.values(table) for column in columns])
    if intercept:
        X = np.column_stack([X, np.ones(len(X))])
    return X, response.values(table) if response else None


@dataclasses.dataclass(frozen=True)
class Marks:
    """How a CSV file separates cells and writes numbers."""

    decimal: str = ""  # "": a comma where semicolons separate cells, else a point
    thousands: str = ""
    separator: str = ""  # "": the only one that the header has

    def __post_init__(self) -> None:
        if self.thousands and self.thousands == (self.decimal or "."):
            raise DataError(f"thousands must not be the decimal mark, got {self.thousands!r} for both")

    @property
    def are_plain(self) -> bool:
        return not (self.decimal or self.thousands)


PLAIN = Marks()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """The owner's public declaration of a table."""

    columns: tuple[Column, ...]
    marks: Marks = PLAIN
    missing: Literal["refuse", "drop"]  # the rule for rows with a missing value that is not imputed
    missing_codes: tuple[str, ...] = ()  # of user ids, which are then refused
    clip: bool = False  # whether numbers outside their bounds are clipped
    n_rows: int | None  # None where it is not public
    user_id: str = ""  # the column of user ids; empty if every row is a different user
    n_users: int | None = None
    weights: str = ""  # the column of weights, which are clipped to its bounds

    @property
    def described(self) -> dict[str, Any]:
        """Everything that determines the rows of a file. Questions and stored tables are known by it."""
        return {
            "columns": [self._described(column) for column in self.columns],
            "marks": {"decimal": self.marks.decimal, "thousands": self.marks.thousands},
            "missing": self.missing,
            "n_rows": self.n_rows,
            "user_id": self.user_id,
            "n_users": self.n_users,
            **({"weights": self.weights} if self.weights else {}),
        }

    def clips(self, column: Column) -> bool:
        """Whether numbers of a column are clipped to its bounds, not refused.

        Between 0 and 1, a 2 is another code, which clipping would turn into a 1.
        """
        return column.name == self.weights or (self.clip and not (column.categories or column.is_zero_to_one))

    def _described(self, column: Column) -> dict[str, Any]:
        return {
            "name": column.name,
            "lower": 0.0 if column.categories else column.lower,
            "upper": 1.0 if column.categories else column.upper,
            "categories": column.categories,
            "impute": column.impute,
            "clip": self.clip,
            "others": column.others,
            "log": bool(column.transform),
            "derived": column.derived,
            "missing": column.missing,
            **({"periods": column.periods} if column.periods else {}),
            **({"resolution": column.resolution} if column.resolution else {}),
            "spellings": [
                (text, level) for level, texts in column.levels.items() for text in texts if text != level
            ],
        }
