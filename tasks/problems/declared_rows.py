"""Rows made up from public declarations and guesses alone: what a table that nobody has read may look like.

A column of numbers follows the beta law on its declared bounds whose mean and standard deviation are its
centre and scale (or the owner's guesses); if no law has so large a deviation, all values lie at the bounds.
Categories are equally frequent unless guessed otherwise. Columns are joined by a Gaussian copula, rows of one
user by a common part of it. A response depends on the standardised covariates, by random effects unless they
are guessed: where covariates are alike, effects may well be large and opposite.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import beta, norm

from data.registry import Column
from tasks.problems.problem import Strict

_LEVELS = np.linspace(0, 1, 4001)
# Standard deviation of what the linear predictor leaves to chance, on its own scale.
_FAMILY_SPREAD = {"logistic": np.pi / np.sqrt(3), "poisson": 0.5, "multinomial": np.pi / np.sqrt(6)}

Guess = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Guesses(Strict):
    """What an owner guesses of a table from general knowledge, so that errors can be foreseen; all public.

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
        By column, where centre and scale of its units are no guess of them.
    effects : dict of str to float
        By covariate: how much the response changes with a standard deviation of it, the others fixed, in any
        unit that is the same for all; those that are not named have none. Empty: random ones.
    shares : dict of str to tuple of float
        By column of categories: how frequent each is, in their order.
    source : str
        How the owner knows.
    """

    correlation: Share = 0.2
    correlations: tuple[tuple[str, str, Annotated[float, Field(gt=-1, lt=1)]], ...] = ()
    explained: Annotated[float, Field(gt=0, lt=1)] = 0.5
    within_users: Share = 0.5
    mean: dict[str, Guess] = Field(default_factory=dict)
    std: dict[str, Annotated[Guess, Field(gt=0)]] = Field(default_factory=dict)
    effects: dict[str, Guess] = Field(default_factory=dict)
    shares: dict[str, tuple[Annotated[float, Field(gt=0)], ...]] = Field(default_factory=dict)
    source: str = "by default; [guesses] in the study file says otherwise"

    def check_names(self, columns: set[str]) -> None:
        """Refuse guesses about columns that there are not."""
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


@dataclass(frozen=True, kw_only=True)
class DeclaredRows:
    """What is declared of a table, from which rows can be made up.

    Attributes
    ----------
    numbers : tuple of Column
        Covariates that are numbers.
    categories : mapping of str to tuple of str
        Column of categories → the table's columns of 0 and 1, one for each category but the first.
    response : Column or None
    family : str
        Of a generalized linear model; empty for others.
    """

    numbers: tuple[Column, ...]
    categories: Mapping[str, tuple[str, ...]]
    response: Column | None
    family: str

    def made_up(
        self, n_rows: int, users: np.ndarray | None, guesses: Guesses, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return rows with the table's columns; ``users`` (n_rows,) says whose they are, if anybody's."""
        names = [*(column.name for column in self.numbers), *self.categories]
        latent = _latent(names, guesses, n_rows, users, rng)
        table = {column.name: _numbers(column, guesses, latent[column.name]) for column in self.numbers}
        for name, indicators in self.categories.items():
            codes = _codes(name, 1 + len(indicators), guesses, latent[name])
            table.update({each: (codes == k).astype(float) for k, each in enumerate(indicators, 1)})
        if self.response is not None:
            spread = {name: (x - x.mean()) / std for name, x in table.items() if (std := x.std()) > 0}
            effects = guesses.effects or dict(zip(table, rng.standard_normal(len(table)), strict=True))
            index = np.sum([effects.get(name, 0.0) * x for name, x in spread.items()], axis=0)
            index = index / max(float(np.std(index)), 1e-12)
            noise = _correlated_noise(1, n_rows, users, guesses.within_users, rng)[0]
            table[self.response.name] = self._responses(self.response, index, noise, guesses, rng)
        return pd.DataFrame(table, copy=False)

    def _responses(
        self, column: Column, index: np.ndarray, noise: np.ndarray, guesses: Guesses, rng: np.random.Generator
    ) -> np.ndarray:
        share = guesses.explained
        u = index * np.sqrt(share / (1 - share)) * _FAMILY_SPREAD.get(self.family, 1.0)
        if self.family == "multinomial":
            directions = np.linspace(-np.sqrt(3), np.sqrt(3), int(column.upper) + 1)
            chosen = u[:, None] * directions + rng.gumbel(size=(len(u), len(directions)))
            return np.asarray(np.argmax(chosen, axis=1), dtype=float)
        mean, std = guesses.moments(column)
        if self.family == "logistic":
            shift = brentq(lambda b: float(expit(u + b).mean()) - mean, -40, 40)
            return np.asarray(rng.random(len(u)) < expit(u + shift), dtype=float)
        if self.family == "poisson":
            rates = np.exp(u)
            rates *= mean / rates.mean()
            # What the deviation has beyond the rates' own and Poisson's is spread of people of one rate.
            beyond = (std**2 - mean - rates.var()) / float((rates**2).mean())
            if beyond > 0:
                rates *= rng.gamma(1 / beyond, beyond, len(u))
            return np.asarray(np.minimum(rng.poisson(rates), np.floor(column.upper)), dtype=float)
        y = mean + std * (np.sqrt(share) * index + np.sqrt(1 - share) * noise)
        return np.asarray(np.clip(y, column.lower, column.upper))


def _latent(
    names: list[str], guesses: Guesses, n_rows: int, users: np.ndarray | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return a standard normal column for each name, correlated as guessed or as near as can be."""
    place = {name: j for j, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), guesses.correlation)
    np.fill_diagonal(matrix, 1.0)
    for one, other, value in guesses.correlations:
        if one in place and other in place:
            matrix[place[one], place[other]] = matrix[place[other], place[one]] = value
    levels, axes = np.linalg.eigh(matrix)
    root = axes * np.sqrt(np.maximum(levels, 0))
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    noise = _correlated_noise(len(names), n_rows, users, guesses.within_users, rng)
    return dict(zip(names, root @ noise, strict=True))


def _correlated_noise(
    k: int, n_rows: int, users: np.ndarray | None, within: float, rng: np.random.Generator
) -> np.ndarray:
    """Return standard normals, (k, n_rows), of which a user's rows have a part in common."""
    own = rng.standard_normal((k, n_rows))
    if users is None:
        return own
    common = rng.standard_normal((k, int(users.max()) + 1))[:, users]
    return np.asarray(np.sqrt(within) * common + np.sqrt(1 - within) * own)


def _numbers(column: Column, guesses: Guesses, latent: np.ndarray) -> np.ndarray:
    """Return a column of the beta law with the guessed mean and deviation on the column's bounds."""
    mean, std = guesses.moments(column)
    width = column.upper - column.lower
    center, variance = (mean - column.lower) / width, (std / width) ** 2
    if variance >= 0.999 * center * (1 - center):
        return np.where(latent > norm.ppf(1 - center), column.upper, column.lower)
    total = center * (1 - center) / variance - 1
    quantiles = beta.ppf(_LEVELS, center * total, (1 - center) * total)
    return np.asarray(column.lower + width * np.interp(ndtr(latent), _LEVELS, quantiles))


def _codes(name: str, n_categories: int, guesses: Guesses, latent: np.ndarray) -> np.ndarray:
    shares = np.array(guesses.shares.get(name, (1.0,) * n_categories))
    if len(shares) != n_categories:
        raise ValueError(
            f"guesses.shares of {name!r} must be one number for each of its {n_categories} categories, got "
            f"{len(shares)}"
        )
    return np.searchsorted(np.cumsum(shares / shares.sum())[:-1], ndtr(latent))
