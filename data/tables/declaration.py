"""What the owner of a table declares public of it and of its columns."""

from dataclasses import dataclass
from typing import Literal

Missing = Literal["refuse", "drop"]


@dataclass(frozen=True, kw_only=True)
class DeclaredColumn:
    """What an owner declares public of a column.

    Attributes
    ----------
    name : str
    lower, upper : float
        Bounds of a column of numbers.
    clip : bool
        Whether a value outside becomes the nearer bound; a file with one is refused otherwise.
    categories : tuple of str
        What a column of text may hold; each but the first becomes a column of 0 and 1, and their numbers
        0, 1, … a column of the same name.
    others : str
        The category of every text that is not listed; empty where such a text is refused.
    log : bool
        Whether the column is replaced by its logarithm, named ``log(name)``; its lower bound is positive.
    impute : float, str or None
        What takes the place of a missing cell; None where the table's rule decides.
    """

    name: str
    lower: float = 0.0
    upper: float = 1.0
    categories: tuple[str, ...] = ()
    impute: float | str | None = None
    clip: bool = False
    others: str = ""
    log: bool = False

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The columns that stand for it as a covariate: itself, or one for each category but the first."""
        if not self.categories:
            return (f"log({self.name})" if self.log else self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories[1:])

    @property
    def imputed(self) -> float:
        """The number that takes the place of a missing cell."""
        return float(self.categories.index(str(self.impute)) if self.categories else self.impute or 0.0)


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What an owner declares public of a table.

    Attributes
    ----------
    columns : tuple of DeclaredColumn
    missing : {"refuse", "drop"}
        What becomes of rows with a cell that is missing and not imputed.
    n_rows : int or None
        The number of rows; None where it is not public and may be any.
    user_id : str
        The column that says which user a row belongs to; empty where every row is another user's.
    n_users : int or None
        The number of users.
    """

    columns: tuple[DeclaredColumn, ...]
    missing: Missing
    n_rows: int | None
    user_id: str = ""
    n_users: int | None = None
