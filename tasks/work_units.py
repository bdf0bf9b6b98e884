"""Cells and blocks: the unit of work and the unit of scheduling.

A cell is an estimator with its settings, at one size and one (ε, δ); its replicates run together. A
block is a bundle of cells that share the data they read. Both are plain, frozen and JSON-able, and
every random number is derived from them, so that any retry, order or machine gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tasks.problems.problem import Problem


_NAMED = 3  # estimators in a block's title


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One estimator at one setting.

    Attributes
    ----------
    panel : str
        The panel of the study.
    form : str
        Which setting of the estimator, e.g. ``"residual-clipped"``; empty where it has one only.
    calibration : str
        ``"none"``, ``"tight"`` or ``"paper"``.
    epsilon, delta : float or None
        What is asked; None for non-private estimators.
    delta_rule : str
        How δ follows from n, e.g. ``"10/n^1.1"``; empty for non-private estimators.
    n : int
        Rows per replicate.
    params : dict
        Public keywords of the estimator.
    steps : int or None
        Number of steps, where a study varies it.
    s : int or None
        Sparsity, where a study varies it.
    """

    estimator: str
    panel: str
    form: str = ""
    calibration: str
    epsilon: float | None
    delta: float | None
    delta_rule: str
    n: int
    params: dict[str, Any]
    steps: int | None = None
    s: int | None = None

    @property
    def key(self) -> str:
        """The cell's name within its study, e.g. ``adassp:public:tight:eps=0.5:delta=1/n^2:n=2000``."""
        return f"{self._key_at_any_s}:s={self.s}" if self.s else self._key_at_any_s

    @property
    def question(self) -> str:
        """The part of the key that decides the answer: cells that differ only in an unused s have the same.

        They share their answer, and the seed that it is drawn from.
        """
        return f"{self._key_at_any_s}:{json.dumps(self.params, sort_keys=True)}" if self.s else self.key

    @property
    def _key_at_any_s(self) -> str:
        steps = f"T={self.steps}" if self.steps else ""
        parts = [self.estimator, "+".join(part for part in (self.panel, self.form, steps) if part)]
        if self.calibration != "none":
            parts += [self.calibration, f"eps={_short(self.epsilon)}", f"delta={self.delta_rule}"]
        return ":".join([*parts, f"n={self.n}"])

    def keywords(self) -> dict[str, Any]:
        """Return the keywords for :func:`dpalgos.estimate`."""
        if self.calibration == "none":
            return dict(self.params)
        budget = {"epsilon": self.epsilon, "delta": self.delta, "calibration": self.calibration}
        return {**self.params, **budget}


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cells of one study that share their data: of one panel, one size and a range of replicates.

    Attributes
    ----------
    panel : str
        The panel's name.
    problem : Problem
        The panel's problem.
    first, replicates : int
        The first replicate, and how many there are from it on.
    of : int
        Replicates of a cell in all its blocks.
    seed : int
        The study's seed.
    work : int
        A rough measure of the work in it, for the order of execution and the time left.
    """

    study: str
    dataset: str
    data_source: str
    panel: str
    problem: Problem
    n: int
    replicates: int
    seed: int
    first: int
    of: int
    work: int
    cells: tuple[Cell, ...]

    @property
    def key(self) -> str:
        """The block's name within its study."""
        name = f"{self.panel}:n={self.n}"
        last = self.first + self.replicates - 1
        return name if self.replicates == self.of else f"{name}:r={self.first}-{last}"

    @property
    def title(self) -> str:
        """Size and estimators for people to read, e.g. ``public:n=2000 · adassp, ols and 3 more``."""
        names = list(dict.fromkeys(cell.estimator for cell in self.cells))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{self.key} · {', '.join(names[:_NAMED])}{more}"

    def described(self) -> dict[str, Any]:
        """Return the block as plain data, e.g. for the key of its result."""
        facts = {**vars(self), "problem": self.problem.model_dump(mode="json")}
        return {**facts, "cells": [asdict(cell) for cell in self.cells]}


def _short(value: float | None) -> str:
    """Write a number in few digits, and in all of them where fewer would be another number."""
    short = "" if value is None else f"{value:g}"
    return short if value is None or float(short) == value else repr(value)


def derive_seed(seed: int, *names: object) -> int:
    """Return a 63-bit seed that follows from the study's seed and the names of what it is for."""
    digest = hashlib.sha256(json.dumps([seed, *map(str, names)]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def replicate_generator(seed: int, replicate: int) -> np.random.Generator:
    """Return the generator of one replicate: ``np.random.default_rng(seed).spawn(R)[replicate]``, any R."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate,)))


def row_generators(block: Block) -> list[np.random.Generator]:
    """Return the generators that draw the rows of each replicate.

    They depend on study, size and seed only, so that all estimators see the same subsamples.
    """
    seed = derive_seed(block.seed, block.study, "rows", block.n)
    return [replicate_generator(seed, r) for r in range(block.first, block.first + block.replicates)]
