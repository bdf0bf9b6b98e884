"""Simulated flocks of boids with the columns of the UCI swarm files: the stand-in for them.

One simulation has 200 boids after Reynolds (1987) on a torus of the published extent (x ±1414, y ±1012). It
has 16 frames, 3 steps apart, after a burn-in of 20 steps. A simulation draws

- the degree of flocking, f ~ Beta(0.22, 0.22), which is usually near 0 or 1;
- the boids' common speed, uniform on (2, 17) pixels per step;
- the weight of separation, uniform on (0, 0.8), and per boid a radius of perception, uniform on (20, 400);
- the position of each boid: with probability 0.4 f + 0.6 U in one of two crowds, else uniform. A crowd is
  normal with a standard deviation uniform on (40, 250);
- the heading: a boid takes the flock's direction (± 0.1) with probability f, else its own.

In each step, four terms are added to a boid's velocity, which is then rescaled to its speed:

- alignment: 0.45 f of the difference to the mean heading of the perceived boids, at the boid's own speed;
- cohesion: 0.008 f of the vector to their center;
- separation: the weight times the repulsion from boids within 40 pixels, 1000 / distance² each, at most the
  boid's speed;
- normal noise with standard deviation 0.15 + 1.8 (1 − f).

The recorded features per boid are

- position and velocity;
- the mean heading of the perceived boids as a unit vector (A);
- the repulsion (S), mostly 0 and heavy-tailed;
- the vector to their center in units of radius / 2.68, whose length is at most the published 2.68 (C);
- the number of boids it perceives (nAC) and avoids (nS).

A and C are 0 for a boid that perceives none. All frames of a simulation have one label: flocking with
probability logistic(20 (f − ½)). The label is flipped with probability 0.025, because the raters disagree.

f, the weights of alignment and cohesion, the noise, the label and the frame spacing were fixed in advance.
Speeds, radii, crowds, separation and repulsion were adjusted by hand. The targets were the published summary
and the error of non-private iterative hard thresholding. The flock is therefore a stand-in and no evidence
about the real data. One boid in eight perceives none; in the real data it may be every second one.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

N_BOIDS = 200
FRAMES, SPACING, BURN_IN = 16, 3, 20
FEATURES = ("x", "y", "xVel", "yVel", "xA", "yA", "xS", "yS", "xC", "yC", "nAC", "nS")

EXTENT = np.array([2828.0, 2024.0], dtype=np.float32)
SPEEDS, RADII = (2.0, 17.0), (20.0, 400.0)
ALIGNMENT, COHESION, SEPARATIONS = 0.45, 0.008, (0.0, 0.8)
PRIVATE_SPACE, REPULSION, LONGEST_CENTER = 40.0, 1000.0, 2.68
CROWDS, CROWD_SIZES, CROWDED_BY_FLOCKING = 2, (40.0, 250.0), 0.4
FLIPPED = 0.025

_BATCH = 8  # simulations whose pairs of boids fit the processor's cache
_ROWS = 40  # rows of pairs that are subtracted at once: NumPy repeats fewer than 8,000 numbers slowly
_TURN = np.float32(2.0**32)

Float = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Flocks:
    """The state of S simulations. A place is a 32-bit integer, whose overflow is the torus."""

    place: npt.NDArray[np.int32]  # (2, S, 200)
    velocity: Float  # (2, S, 200)
    flocking: Float  # (S, 1)
    speed: Float  # (S, 1)
    radius: Float  # (S, 200, 1)
    separation: Float  # (S, 1)
    noise: Float  # (steps, 2, S, 200)
    label: npt.NDArray[np.int8]  # (S,)


def swarm_simulated(n_frames: int, seed: int) -> Iterator[tuple[Float, npt.NDArray[np.int8]]]:
    """Simulate ``n_frames`` frames of flocks: yield frames (k, 2400) and their labels (k,).

    Simulation i has 16 rows in order of time and depends only on the seed and i. Fewer simulations are then
    the first of more. Columns are the `FEATURES` of boid 1, of boid 2, …
    """
    simulations = range(-(-n_frames // FRAMES))

    def filmed(first: int) -> tuple[Float, npt.NDArray[np.int8]]:
        flocks = _start(simulations[first : first + _BATCH], seed)
        return _film(flocks), np.repeat(flocks.label, FRAMES)

    firsts = iter(range(0, len(simulations), _BATCH))
    n_threads = os.cpu_count() or 1
    with ThreadPoolExecutor(n_threads, thread_name_prefix="flocks") as pool:
        while some := list(islice(firsts, n_threads)):
            yield from pool.map(filmed, some)


def _start(simulations: range, seed: int) -> _Flocks:
    steps = BURN_IN + SPACING * (FRAMES - 1)
    rngs = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(i,))) for i in simulations]
    draws = [_draw(rng, steps) for rng in rngs]
    names = ("place", "velocity", "flocking", "speed", "radius", "separation", "noise", "label")
    axis = {"place": 1, "velocity": 1, "noise": 2}
    return _Flocks(**{name: np.stack([draw[name] for draw in draws], axis.get(name, 0)) for name in names})


def _draw(rng: np.random.Generator, steps: int) -> dict[str, npt.NDArray[np.generic]]:
    f = rng.beta(0.22, 0.22)
    speed, separation = rng.uniform(*SPEEDS), rng.uniform(*SEPARATIONS)
    shares = rng.random(N_BOIDS) < f
    heading = rng.uniform(-np.pi, np.pi, N_BOIDS)
    angle = np.where(shares, rng.uniform(-np.pi, np.pi) + rng.normal(0, 0.1, N_BOIDS), heading)
    radius = rng.uniform(*RADII, (N_BOIDS, 1))
    crowded = CROWDED_BY_FLOCKING * f + (1 - CROWDED_BY_FLOCKING) * rng.random()
    centers = rng.integers(0, 2**32, (2, CROWDS))[:, rng.integers(CROWDS, size=N_BOIDS)]
    scatter = rng.uniform(*CROWD_SIZES) * rng.standard_normal((2, N_BOIDS))
    inside = centers + np.rint(scatter * (2.0**32 / EXTENT)[:, None]).astype(np.int64)
    place = np.where(rng.random(N_BOIDS) < crowded, inside, rng.integers(0, 2**32, (2, N_BOIDS)))
    noise = rng.standard_normal((steps, 2, N_BOIDS), dtype=np.float32) * np.float32(0.15 + 1.8 * (1 - f))
    label = (rng.random() < 1 / (1 + np.exp(-20 * (f - 0.5)))) ^ (rng.random() < FLIPPED)
    return {
        "place": place.astype(np.uint32).view(np.int32),
        "velocity": (speed * np.stack([np.cos(angle), np.sin(angle)])).astype(np.float32),
        "flocking": np.array([f], dtype=np.float32),
        "speed": np.array([speed], dtype=np.float32),
        "radius": radius.astype(np.float32),
        "separation": np.array([separation], dtype=np.float32),
        "noise": noise,
        "label": np.array(label, dtype=np.int8),
    }


def _film(flocks: _Flocks) -> Float:
    n_simulations = flocks.place.shape[1]
    frames = np.empty((n_simulations, FRAMES, N_BOIDS, len(FEATURES)), dtype=np.float32)
    place, velocity, pairs = flocks.place, flocks.velocity, _Pairs(flocks.radius)
    for step in range(len(flocks.noise) + 1):
        neighborhood = _perceive(flocks, pairs, place, velocity)
        frame, rest = divmod(step - BURN_IN, SPACING)
        if frame >= 0 and rest == 0:
            pixels = place.astype(np.float32) * (EXTENT / _TURN)[:, None, None]
            frames[:, frame] = np.moveaxis(np.concatenate([pixels, velocity, neighborhood]), 0, -1)
        if step < len(flocks.noise):
            velocity = _steer(flocks, velocity, neighborhood, flocks.noise[step])
            place = place + np.rint(velocity * (_TURN / EXTENT)[:, None, None]).astype(np.int32)
    return frames.reshape(n_simulations * FRAMES, -1)


class _Pairs:
    """Room for all pairs of boids, used again in every step: fresh memory costs more than the arithmetic."""

    def __init__(self, radius: Float) -> None:
        shape = (len(radius), N_BOIDS, N_BOIDS)
        self.integers = np.empty((2, *shape), dtype=np.int32)
        self.rows = self.integers.reshape(2, len(radius), -1, _ROWS * N_BOIDS)
        self.away = np.empty((2, *shape), dtype=np.float32)
        self.squared, self.near = self.integers.view(np.float32)  # in the same memory, used later
        self.reach = np.repeat(radius**2, N_BOIDS, axis=2)  # row by row a comparison takes twice the time
        self.within = np.empty(shape, dtype=bool)


def _perceive(flocks: _Flocks, pairs: _Pairs, place: npt.NDArray[np.int32], velocity: Float) -> Float:
    """Return xA, yA, xS, yS, xC, yC, nAC, nS, (8, S, 200)."""
    away, squared, near = pairs.away, pairs.squared, pairs.near
    pairs.integers[:] = place[:, :, :, None]
    pairs.rows -= np.tile(place, _ROWS)[:, :, None, :]
    np.copyto(away, pairs.integers, casting="same_kind")
    away *= (EXTENT / _TURN)[:, None, None, None]  # from j to i
    np.multiply(away[0], away[0], out=squared)
    np.multiply(away[1], away[1], out=near)
    squared += near
    squared.reshape(len(squared), -1)[:, :: N_BOIDS + 1] = np.inf
    near[:] = np.less(squared, pairs.reach, out=pairs.within)
    neighborhood = np.empty((8, *place.shape[1:]), dtype=np.float32)
    heading, push, center = neighborhood[0:2], neighborhood[2:4], neighborhood[4:6]
    count, crowd = neighborhood[6:]
    count[:] = near @ np.ones(N_BOIDS, dtype=np.float32)
    heading[:] = np.moveaxis(near @ np.moveaxis(velocity, 0, -1), -1, 0)
    heading /= np.maximum(np.hypot(*heading), 1e-6)
    np.divide(-np.vecdot(away, near), np.maximum(count, 1), out=center)
    center *= LONGEST_CENTER / flocks.radius[..., 0]

    close = np.flatnonzero(np.less(squared, PRIVATE_SPACE**2, out=pairs.within))
    boid, n_boids = close // N_BOIDS, count.size
    strength = REPULSION / np.maximum(squared.ravel()[close], 1e-4) ** 1.5
    for a in (0, 1):
        push[a] = np.bincount(boid, away[a].ravel()[close] * strength, n_boids).reshape(count.shape)
    crowd[:] = np.bincount(boid, minlength=n_boids).reshape(count.shape)
    return neighborhood


def _steer(flocks: _Flocks, velocity: Float, neighborhood: Float, noise: Float) -> Float:
    heading, push, center = neighborhood[0:2], neighborhood[2:4], neighborhood[4:6]
    perceives = neighborhood[6] > 0
    f, speed = flocks.flocking, flocks.speed
    lacking = np.where(perceives, heading * speed - velocity, 0)
    offset = center * (flocks.radius[..., 0] / LONGEST_CENTER)
    strength = flocks.separation * np.minimum(1, speed / np.maximum(np.hypot(*push), 1e-6))
    steered = velocity + ALIGNMENT * f * lacking + COHESION * f * offset + strength * push + noise
    return np.asarray(steered * (speed / np.maximum(np.hypot(*steered), 1e-6)), dtype=np.float32)
