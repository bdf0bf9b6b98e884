"""Sources of randomness: seeded ones with replicates as a trailing axis, and samplers of whole numbers.

Replicate r draws from its own generator only. Therefore a batch of R replicates equals R single runs.
Seeded generators are for research: they are not cryptographic, and their noise is not floating-point-safe.

Whole numbers of Laplace's law and in a cube are drawn by OpenDP and from the operating system, for releases.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from secrets import randbelow
from typing import Any

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.typing import BoolArray, FloatArray

Sampler = Callable[[list[int]], list[int]]
N_SAMPLERS = 256  # kept by their scales, which are public: making one takes longer than drawing from it
_BLOCK = 128
_LEAST_UNIFORM = 2.0**-53
_SEED_BITS = 96  # a number of 128 random bits is shorter once in 2³² times


def _gumbel(rng: np.random.Generator, out: FloatArray) -> None:
    rng.standard_exponential(out=out)
    np.log(out, out=out)
    np.negative(out, out=out)


def _laplace(rng: np.random.Generator, out: FloatArray) -> None:
    """Draw log 2u where u < ½, else −log 2(1 − u), for u uniform; only the logarithm is rounded."""
    rng.random(out=out)
    out -= 0.5
    inner = np.abs(out)
    inner *= -2
    inner += 1
    np.maximum(inner, _LEAST_UNIFORM, out=inner)  # u = 0 would be an infinite draw
    np.copysign(np.log(inner, out=inner), out, out=out)


# How a contiguous array is filled with independent standard draws, by numpy's name of their kind. Logarithms
# of whole arrays are a third of the price of the generator's own.
FILLS: dict[str, Callable[..., object]] = {
    "standard_normal": np.random.Generator.standard_normal,
    "random": np.random.Generator.random,
    "gumbel": _gumbel,
    "laplace": _laplace,
}


def generator_of(random_state: object, *, in_budget: bool = False) -> np.random.Generator:
    """Return the generator of one fit: the operating system's where no state is given, never a global one."""
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if in_budget:
        raise InputError(
            f"random_state must be left out with a budget, got {shown(random_state)}: fits of one seed would "
            "share their noise; to repeat a run, pass one numpy.random.Generator to all fits"
        )
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=8))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    raise InputError(
        "random_state must be None, a whole number of at least 0 or a numpy.random.Generator, got "
        f"{shown(random_state)}"
    )


def is_seeded(rng: np.random.Generator) -> bool:
    """Return whether a generator was made from a known seed: its noise can be drawn again and subtracted.

    The operating system's entropy is a number of 128 bits. A shorter number, or any other seed, was chosen by
    somebody. A generator without a seed sequence counts as seeded.
    """
    sequence = getattr(rng.bit_generator, "seed_seq", None)
    entropy = getattr(sequence, "entropy", None)
    return not (isinstance(entropy, int) and entropy.bit_length() > _SEED_BITS)


class Noise:
    """Standard draws for R independent replicates, from one generator each.

    Each generator draws blocks of numbers, which are used in order and never twice. Calling a hundred
    generators for six numbers each, fifty times, would take longer than the algebra.

    Attributes
    ----------
    n_replicates : int
        Number of replicates R.
    silent : bool
        Whether every perturbation is zero.
    """

    silent = False

    def __init__(self, rngs: Sequence[np.random.Generator]) -> None:
        self._rngs, self.n_replicates = list(rngs), len(rngs)
        self._blocks: dict[str, FloatArray] = {}

    def normal(self, *shape: int) -> FloatArray:
        """Draw standard normals of shape ``(*shape, R)``."""
        return self._draw("standard_normal", shape)

    def laplace(self, *shape: int) -> FloatArray:
        """Draw Laplace variables of scale 1 and shape ``(*shape, R)``."""
        return self._draw("laplace", shape)

    def uniform(self, *shape: int) -> FloatArray:
        """Draw numbers uniform on [0, 1) of shape ``(*shape, R)``."""
        return self._draw("random", shape)

    def projection(self, *shape: int) -> FloatArray:
        """Draw standard normals of a random projection, which stay where noise is switched off."""
        return self.normal(*shape)

    def box(self, size: int) -> FloatArray:
        """Draw vectors of density ∝ e^(−‖z‖∞), (size, R): uniform in a cube of Gamma(size + 1) half-width."""
        half_width = np.abs(self.laplace(size + 1)).sum(axis=0)
        return np.asarray(half_width * (2 * self.uniform(size) - 1))

    def drawn(self, used: BoolArray, rate: float) -> FloatArray:
        """Draw 1 with probability ``rate`` for every used row of every replicate, else 0, (n, R)."""
        if used.all():
            return np.asarray(self.select(slice(0, self.n_replicates)).uniform(len(used)) < rate, dtype=float)
        drawn = np.zeros(used.shape)
        for r, rows in enumerate(used.T):
            drawn[rows, r] = self.select(slice(r, r + 1)).uniform(int(rows.sum()))[:, 0] < rate
        return drawn

    def gumbel(self, *shape: int) -> FloatArray:
        """Draw standard Gumbel variables of shape ``(*shape, R)``."""
        return self._draw("gumbel", shape)

    def gumbel_rows(self, count: int, n_rows: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield some replicates and their standard Gumbel draws, (at most ``n_rows``, ``count``), in turn.

        For vectors that are long and used up at once: the draws stay in the processor's cache.
        """
        for start in range(0, self.n_replicates, n_rows):
            chosen = slice(start, min(start + n_rows, self.n_replicates))
            yield chosen, self.select(chosen)._fresh("gumbel", count).T

    def select(self, replicates: slice) -> "Noise":
        """Return the source that draws for some of the replicates."""
        return Noise(self._rngs[replicates])

    def _draw(self, kind: str, shape: tuple[int, ...]) -> FloatArray:
        count = math.prod(shape)
        block = self._blocks.get(kind)
        if block is None or block.shape[0] < count:
            fresh = self._fresh(kind, max(count, _BLOCK))
            block = fresh if block is None else np.concatenate([block, fresh])
        self._blocks[kind] = block[count:]
        return block[:count].reshape(*shape, self.n_replicates)

    def _fresh(self, kind: str, count: int) -> FloatArray:
        draws = np.empty((self.n_replicates, count))
        for row, rng in zip(draws, self._rngs, strict=True):
            FILLS[kind](rng, out=row)
        return draws.T


class NoNoise(Noise):
    """Every perturbation is zero: the limit that the tests compare with; never private."""

    silent = True

    def __init__(self, rngs: Sequence[np.random.Generator]) -> None:
        super().__init__(rngs)
        self._projections = Noise(rngs)

    def projection(self, *shape: int) -> FloatArray:
        return self._projections.normal(*shape)

    def _fresh(self, kind: str, count: int) -> FloatArray:
        return np.zeros((count, self.n_replicates))

    def drawn(self, used: BoolArray, rate: float) -> FloatArray:
        """Return how often a row is drawn on average."""
        return rate * used

    def select(self, replicates: slice) -> "NoNoise":
        """Return the silent source for some of the replicates."""
        return NoNoise(self._rngs[replicates])


def integer_vectors() -> Any:
    """Return OpenDP's domain of vectors of whole numbers."""
    from opendp.domains import atom_domain, vector_domain

    return vector_domain(atom_domain(T="i64"))


@lru_cache(maxsize=N_SAMPLERS)
def laplace_sampler(scale: float) -> Sampler:
    """Return OpenDP's exact discrete Laplace mechanism on integer vectors."""
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    space = integer_vectors(), l1_distance(T="i64")
    sampler: Sampler = make_laplace(*space, scale=scale)
    return sampler


def box_sampler(scale: float, size: int) -> Sampler:
    """Return a mechanism on integer vectors whose noise has probability ∝ e^(−‖z‖∞ / scale), exactly.

    z is uniform in the cube {−t, …, t}^k, where t has probability ∝ (2t + 1)^k e^(−t / scale). A value z is
    in all cubes with t ≥ ‖z‖∞. Their terms e^(−t / scale) sum to its probability, up to a constant. To draw
    t, sum k + 1 geometric variables: the sum has probability ∝ (t + 1) … (t + k) e^(−t / scale). It is kept
    with probability Π (2t + 1) / (2t + 2j), j = 1 … k. A geometric variable is discrete Laplace noise that is
    not negative.
    """
    noise_on_zeros = laplace_sampler(scale)

    def half_width() -> int:
        while True:
            geometric: list[int] = []
            while len(geometric) <= size:
                geometric += [entry for entry in noise_on_zeros([0] * size) if entry >= 0]
            t = sum(geometric[: size + 1])
            if all(randbelow(2 * t + 2 * j) <= 2 * t for j in range(1, size + 1)):
                return t

    def add_noise(index: list[int]) -> list[int]:
        t = half_width()
        return [entry + randbelow(2 * t + 1) - t for entry in index]

    return add_noise
