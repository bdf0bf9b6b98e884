"""The owner's guesses about a table, and random guesses that are as plausible.

All of it is public: general knowledge, a codebook, a published table; never computed from the rows.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from data.dataset import Column
from tasks.strict import Strict

Guess = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Correlation = Annotated[float, Field(gt=-1, lt=1)]

# How far the truth may lie from a guess, as standard deviations of normal laws: where it is stated, where the
# column's units are, and where nothing is but bounds.
_MEAN = (0.05, 0.3, 0.8)  # in standard deviations of the column
_LOG_STD = (0.1, 0.3, 0.45)
_STD_OF_BOUNDS = 0.4  # of a quarter of the bounds: who declares them is careful, as a rule
_LOG_CARE = 0.35  # of all columns of a table alike
_ROOM = 0.8  # of the way to a bound
_LOG_SHARE = 1.2  # of shares of categories that are not stated
_LEAST_SHARE = 0.01
_LEAST_OF_TWO = 0.05  # share of the rarer value of a column on 0 and 1
_CORRELATION = 0.1  # on Fisher's scale
_LOGIT_EXPLAINED = (0.3, 1.5)  # unstated: most tables between .1 and .9
_EFFECT = 0.35  # of the effects' root mean square, where columns tell different things
_LEAST_APART = 0.05  # least eigenvalue of correlations for which effects are looked for
_GROUP = 3  # columns that tell much the same, on average
_TWO_VALUES = 0.9  # of the largest variance on the bounds: a column that holds two values alone


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

    correlation: Share = 0.2
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

    def moments(self, column: Column) -> tuple[float, float]:
        """Return the guessed mean and standard deviation of a column."""
        center = column.center
        if center is None or not column.lower < center < column.upper:
            center = (column.lower + column.upper) / 2
        scale = (column.upper - column.lower) / 4 if column.scale is None else column.scale
        mean, std = self.mean.get(column.name, center), self.std.get(column.name, scale)
        if not column.lower < mean < column.upper:
            raise ValueError(
                f"guesses.mean of {column.name!r} must lie between its bounds {column.lower:g} and "
                f"{column.upper:g}, got {mean:g}; correct it"
            )
        return mean, std

    def plausible(
        self,
        numbers: Sequence[Column],
        correlated: Sequence[str],
        covariates: Sequence[str],
        categories: Mapping[str, int],
        rng: np.random.Generator,
    ) -> "Guesses":
        """Return equally plausible guesses: near the stated ones, random where none is stated.

        Parameters
        ----------
        numbers : sequence of Column
            Columns of numbers, the response among them.
        correlated : sequence of str
            Columns of numbers and of categories beside the response.
        covariates : sequence of str
            What effects are of: numbers, and a column of 0 and 1 for each category but the first.
        categories : mapping of str to int
            Column of categories → how many there are.
        rng : numpy.random.Generator
        """
        told = self.model_fields_set
        drawn: dict[str, Any] = {"mean": {}, "std": {}, "shares": dict(self.shares)}
        for name, count in categories.items():
            if name not in self.shares:
                shares = np.exp(_LOG_SHARE * rng.standard_normal(count))
                drawn["shares"][name] = tuple(np.maximum(shares / shares.sum(), _LEAST_SHARE).tolist())
        care = _STD_OF_BOUNDS * float(np.exp(_LOG_CARE * rng.standard_normal()))
        for column in numbers:
            drawn["mean"][column.name], drawn["std"][column.name] = self._plausible_moments(column, care, rng)
        drawn["correlations"] = self._plausible_correlations(correlated, rng)
        odds = np.log(self.explained / (1 - self.explained))
        odds += _LOGIT_EXPLAINED["explained" not in told] * rng.standard_normal()
        drawn["explained"] = float(1 / (1 + np.exp(-odds)))
        if self.effects:
            drawn["effects"] = self._plausible_effects(covariates, drawn["correlations"], rng)
        return self.model_copy(update=drawn)

    def _plausible_moments(
        self, column: Column, care: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        mean, std = self.moments(column)
        low, width = column.lower, column.upper - column.lower
        has_units = (column.center, column.scale) not in ((None, None), (low + width / 2, width / 4))
        of_mean = 0 if column.name in self.mean else 1 if has_units else 2
        of_std = 0 if column.name in self.std else 1 if has_units else 2
        if width == 1 and low == round(low) and of_mean == of_std == 2:  # two values, most likely
            return low + float(rng.uniform(_LEAST_OF_TWO, 1 - _LEAST_OF_TWO)), width
        two_values = std**2 >= _TWO_VALUES * (mean - low) * (column.upper - mean)
        move = _MEAN[of_mean] * std * rng.standard_normal()
        room = _ROOM * min(mean - low, column.upper - mean)
        factor = np.exp(_LOG_STD[of_std] * rng.standard_normal()) * (care if of_std == 2 else 1.0)
        return float(mean + np.clip(move, -room, room)), float(width if two_values else std * factor)

    def _plausible_effects(
        self,
        covariates: Sequence[str],
        correlations: Sequence[tuple[str, str, float]],
        rng: np.random.Generator,
    ) -> dict[str, float]:
        """Return effects near the stated ones, as far as the response distinguishes them.

        Of columns that tell much the same, effects may be large and opposite with hardly a change of the
        response: with correlations R, errors have the law of R^{-1/2} z, so that the response is as sure in
        every direction.
        """
        place = {name: j for j, name in enumerate(covariates)}
        matrix = np.eye(len(covariates))
        for one, other, value in correlations:
            if one in place and other in place:
                matrix[place[one], place[other]] = matrix[place[other], place[one]] = value
        levels, axes = np.linalg.eigh(matrix)
        size = _EFFECT * float(np.sqrt(np.mean(np.square(list(self.effects.values())))))
        z = size * rng.standard_normal(len(levels)) / np.sqrt(np.maximum(levels, _LEAST_APART))
        return {name: self.effects.get(name, 0.0) + float(axes[j] @ z) for name, j in place.items()}

    def _plausible_correlations(
        self, names: Sequence[str], rng: np.random.Generator
    ) -> tuple[tuple[str, str, float], ...]:
        """Return each pair's correlation; without a statement some groups correlate strongly."""
        stated = {frozenset(pair[:2]): pair[2] for pair in self.correlations}
        group = rng.integers(0, max(1, len(names) // _GROUP), len(names))
        shared = rng.random(len(names)) ** 0.25
        if "correlation" in self.model_fields_set:
            shared[:] = 0.0
        found = []
        for i, j in combinations(range(len(names)), 2):
            pair = frozenset((names[i], names[j]))
            common = shared[i] * shared[j] * (group[i] == group[j])
            center = stated.get(pair, max(self.correlation, common))
            moved = np.tanh(np.arctanh(min(center, 0.99)) + _CORRELATION * rng.standard_normal())
            found.append((names[i], names[j], float(moved)))
        return tuple(found)
