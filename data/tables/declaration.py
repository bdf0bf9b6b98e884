"""What the owner of a table declares public of it and of its columns."""

from dataclasses import dataclass
from typing import Literal

Missing = Literal["refuse", "drop"]


@dataclass(frozen=True, kw_only=True)
class DeclaredColumn:
    """What an owner declares public of a column.

    Of its categories each but the first becomes a column of 0 and 1.
    """

    name: str
    lower: float = 0.0  # of numbers
    upper: float = 1.0
    categories: tuple[str, ...] = ()  # their codes 0, 1, … are a column of the same name
    impute: float | str | None = None  # in place of a missing cell; None: the table's rule
    clip: bool = False  # whether a value outside becomes the nearer bound
    others: str = ""  # the category of every text that is not listed; "": such a text is refused
    log: bool = False  # whether the column is replaced by its logarithm, log(name)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The columns that stand for it as a covariate: itself, or one for each category but the first."""
        if not self.categories:
            return (f"log({self.name})" if self.log else self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories[1:])

    @property
    def imputed(self) -> float:
        return float(self.categories.index(str(self.impute)) if self.categories else self.impute or 0.0)


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What an owner declares public of a table."""

    columns: tuple[DeclaredColumn, ...]
    missing: Missing  # what becomes of rows with a cell that is missing and not imputed
    n_rows: int | None  # None where it is not public
    user_id: str = ""  # the column of user ids; empty where every row is another user's
    n_users: int | None = None
