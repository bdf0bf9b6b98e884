"""The owner's guesses about a table.

All of it is public: general knowledge, a codebook, a published table; never computed from the rows.
"""

from typing import Annotated

from pydantic import Field

from tasks.strict import Strict

Guess = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Correlation = Annotated[float, Field(gt=-1, lt=1)]


class Guesses(Strict):
    """An owner's guesses about a table from general knowledge, from which errors are forecast; all public.

    Attributes
    ----------
    correlation : float
        Of any two covariates, but for those in `correlations`.
    correlations : tuple of (str, str, float)
        Of some pairs of columns.
    explained : float
        Share of the response's variance that the covariates explain; on the scale of the linear predictor for
        logistic, Poisson and multinomial regressions.
    within_users : float
        Correlation of the rows of one user.
    mean, std : dict of str to float
        By column, where center and scale of its units are no guess of them.
    effects : dict of str to float
        By covariate: how much the response changes with a standard deviation of it, the others fixed, in any
        unit that is the same for all; those that are not named have none. Empty: random ones.
    shares : dict of str to tuple of float
        By column of categories: how frequent each is, in their order.
    source : str
        How the owner knows.
    """

    correlation: Share = 0.0
    correlations: tuple[tuple[str, str, Correlation], ...] = ()
    explained: Annotated[float, Field(gt=0, lt=1)] = 0.5
    within_users: Share = 0.5
    mean: dict[str, Guess] = Field(default_factory=dict)
    std: dict[str, Annotated[Guess, Field(gt=0)]] = Field(default_factory=dict)
    effects: dict[str, Guess] = Field(default_factory=dict)
    shares: dict[str, tuple[Annotated[float, Field(gt=0)], ...]] = Field(default_factory=dict)
    source: str = ""

    def check_names(self, columns: set[str]) -> None:
        """Refuse guesses about unknown columns."""
        pairs = [name for pair in self.correlations for name in pair[:2]]
        for name in (*pairs, *self.mean, *self.std, *self.effects, *self.shares):
            if name not in columns:
                raise ValueError(
                    f"guesses must be about columns of the study, got {name!r}; correct it, or take it out"
                )
