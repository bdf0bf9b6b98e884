"""An owner's guesses about the columns of a table: general knowledge, a codebook, a published table."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError

from dpalgos.errors import InputError
from tasks.file_schema import Number, Positive, Strict

Share = Annotated[Number, Field(ge=0, lt=1)]
Correlation = Annotated[Number, Field(gt=-1, lt=1)]


class Guesses(Strict):
    """An owner's guesses about a table from general knowledge, from which errors are forecast; all public."""

    correlation: Share = 0.0  # of any two covariates, but for those in `correlations`
    correlations: tuple[tuple[str, str, Correlation], ...] = ()  # of some pairs of columns
    # Share of the response's variance that the covariates explain; on the scale of the linear predictor for
    # logistic, Poisson and multinomial regressions.
    explained: Annotated[Number, Field(gt=0, lt=1)] = 0.5
    skewed: bool = False  # a positive response has a long upper tail
    within_users: Share = 0.5  # correlation of the rows of one user
    rows_per_user: Annotated[Number, Field(ge=1)] = 3.0  # their mean number
    # By column, where center and scale of its units are no guess of them. Of a column of categories, a level
    # ("mi=yes") or a list of all levels in their order: how frequent they are, as in `shares`.
    mean: dict[str, Number | tuple[Number, ...]] = Field(default_factory=dict)
    std: dict[str, Positive] = Field(default_factory=dict)
    # By covariate: how much the response changes with a standard deviation of it, the others fixed, in any
    # unit that is the same for all; those that are not named have none. Empty: random ones.
    effects: dict[str, Number] = Field(default_factory=dict)
    # By column of categories: how frequent each is, in their order; or one number, of a level ("mi=yes") or
    # of the second of two.
    shares: dict[str, Positive | tuple[Positive, ...]] = Field(default_factory=dict)
    source: str = ""  # how the owner knows

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Read guesses; refuse all that is wrong in them."""
        try:
            return cls.model_validate(dict(plain))
        except ValidationError as error:
            faults = [
                f"guesses.{'.'.join(map(str, each['loc']))}: {each['msg']}, got {each['input']!r:.60}"
                for each in error.errors()
            ]
            raise InputError("; ".join(faults)) from None

    @property
    def means(self) -> dict[str, float]:
        """The means that are one number; after `by_column` all are."""
        return {name: value for name, value in self.mean.items() if not isinstance(value, tuple)}

    def by_column(self, categories: Mapping[str, tuple[str, ...]]) -> Self:
        """Return guesses with all shares of each column of ``categories``, whichever way they are stated.

        For two categories the mean of the second one's indicator is stated, too. Levels without a stated
        share divide the rest.
        """
        guesses_by_column: dict[str, dict[str, float]] = {}
        mean, shares = dict(self.mean), dict(self.shares)
        for entry, table in (("mean", mean), ("shares", shares)):
            for name, value in list(table.items()):
                column, level = _level_of(name, categories)
                if not column:  # of numbers; of 0 and 1 their shares say the mean
                    if isinstance(value, tuple) and len(value) != 2:
                        raise InputError(f"guesses.{entry} of {name!r} must be one number, got {len(value)}")
                    mean[name] = value[1] / sum(value) if isinstance(value, tuple) else value
                    shares.pop(name, None)
                    continue
                levels, values = categories[column], value if isinstance(value, tuple) else (value,)
                levels_of_guess = (level,) if level else levels if isinstance(value, tuple) else levels[1:]
                if len(values) != len(levels_of_guess):
                    raise InputError(
                        f"guesses.{entry} of {name!r} must be one number for each of its {len(levels)} "
                        f"categories, got {len(values)}; or name a level, e.g. '{column}={levels[-1]}' = 0.01"
                    )
                del table[name]
                guesses_by_column.setdefault(column, {}).update(zip(levels_of_guess, values, strict=True))
        for column, known in guesses_by_column.items():
            levels, total = categories[column], sum(known.values())
            rest = len(levels) - len(known)
            if not min(known.values()) > 0 or (rest and not total < 1):
                raise InputError(
                    f"guesses of {column!r} must be shares above 0 and below 1, got {list(known.values())}"
                )
            all_of_them = [known.get(level, (1 - total) / max(rest, 1)) for level in levels]
            shares[column] = tuple(share / sum(all_of_them) for share in all_of_them)
            if len(levels) == 2:
                mean[f"{column}={levels[1]}"] = all_of_them[1] / sum(all_of_them)
        return self.model_copy(update={"mean": mean, "shares": shares})

    def without(self, name: str) -> Self:
        """Return the guesses about all other columns."""
        pairs = tuple(each for each in self.correlations if name not in each[:2])
        mean, std = (
            {key: value for key, value in each.items() if key != name} for each in (self.mean, self.std)
        )
        return self.model_copy(update={"mean": mean, "std": std, "correlations": pairs})

    def check(self, categories: Mapping[str, tuple[str, ...]], names: Collection[str]) -> Self:
        """Return guesses about columns, by column; refuse other names."""
        guesses = self.by_column(categories)
        known = {*names, *categories}
        known |= {f"{name}={level}" for name, levels in categories.items() for level in levels[1:]}
        pairs = [name for pair in guesses.correlations for name in pair[:2]]
        for name in (*pairs, *guesses.mean, *guesses.std, *guesses.effects, *guesses.shares):
            if name not in known:
                raise InputError(
                    f"guesses must be about declared columns, got {name!r}; correct or remove it"
                )
        if same := [one for one, other, _ in guesses.correlations if one == other]:
            raise InputError(f"guesses.correlations must be of two columns, got {same[0]!r} twice")
        return guesses


def _level_of(name: str, categories: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
    """Return the column of categories that a name means, and the level if it is of one; else nothing."""
    if name in categories:
        return name, ""
    pairs = ((column, level) for column, levels in categories.items() for level in levels)
    return next(((column, level) for column, level in pairs if name == f"{column}={level}"), ("", ""))
