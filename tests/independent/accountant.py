"""The ε that a run's events prove, by arithmetic that shares no line with `dpalgos.accounting`.

Gaussian releases are one shift μ = √Σ count/z². Pure releases and selections are dominated by randomized
response: their losses ±ε are convolved on a fine grid, and the Gaussian part is integrated in closed form,

    δ(ε) = Σ_l P(l) [Φ((l − ε)/μ + μ/2) − e^(ε − l) Φ((l − ε)/μ − μ/2)].

Beside it: Rényi divergences, minimized over a continuous order, and the sum of pure ε.
"""

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, ndtr
from scipy.stats import binom

STEP = 2e-5  # of the grid of losses, in units of the losses' spread


def epsilon_of(events, delta):
    """Return the least ε at δ; infinite where nothing is proved."""
    groups = {event.group for event in events} - {None}
    return max(_epsilon([e for e in events if e.group in (None, group)], delta) for group in groups or {None})


PURE = ("Pure", "Proved", "Laplace", "Cube", "RandomReport", "Selection", "BinSelection")


def charges(event):
    return event.times * getattr(event, "count", 1)


def divisor(event):
    """Return ε² over ρ: 8 of a choice by the exponential mechanism, otherwise 2."""
    return 8 if type(event).__name__.endswith("Selection") and event.by != "peeling" else 2


def rho_of(events):
    """Return ρ of zero-concentrated DP, the sum of pure ε, and δ of failures: what a ledger adds up.

    Of disjoint groups of people each is told of its own events alone, and the most of any counts.
    """
    groups = {event.group for event in events} - {None}
    told = [[e for e in events if e.group in (None, group)] for group in groups or {None}]
    return tuple(max(costs) for costs in zip(*map(_rho_of_one, told), strict=True))


def _rho_of_one(events):
    rho = pure = failure = 0.0
    for event in events:
        kind, count = type(event).__name__, charges(event)
        if kind in ("Gaussian", "DiscreteGaussian"):
            rho, pure = rho + count / 2 / event.noise_multiplier**2, np.inf
        elif kind == "Proved" and event.epsilon == 0:
            failure += event.delta
        elif kind in PURE and getattr(event, "delta", 0) == 0:
            rho, pure = rho + count * event.epsilon**2 / divisor(event), pure + count * event.epsilon
        else:
            raise AssertionError(f"a {kind} has no cost that adds up")
    return rho, pure, failure


def epsilon_of_rho(rho, delta):
    """Return the ε at δ of ρ-zCDP, by the best order (Canonne, Kamath & Steinke 2020)."""
    return _best_order(lambda order: order * rho, delta)


def _epsilon(events, delta):
    kinds = [type(event).__name__ for event in events]
    delta -= sum(event.delta for event in events if hasattr(event, "delta"))
    if any(getattr(event, "epsilon", 0) == np.inf for event in events) or delta < 0:
        return np.inf
    pairs = list(zip(events, kinds, strict=True))
    sampled = {}
    for event, kind in pairs:
        if kind == "SampledGaussian":
            cost = (event.noise_multiplier, event.sampling_rate)
            sampled[cost] = sampled.get(cost, 0) + charges(event)
    square = sum(charges(e) / e.noise_multiplier**2 for e, kind in pairs if kind == "Gaussian")
    pure = [(e.epsilon, charges(e)) for e, kind in pairs if getattr(e, "epsilon", 0) > 0]
    total = sum(epsilon * count for epsilon, count in pure)
    if delta == 0:
        return np.inf if square else total
    is_pure = all(kind in PURE for _, kind in pairs)
    found = [total] if is_pure else []
    if {"DiscreteGaussian", "Sketch"}.isdisjoint(kinds):
        found.append(_by_losses(square, pure, sampled, delta))
    if not found or pure or "Sketch" in kinds:
        found.append(_best_order(lambda order: sum(_renyi(e, kind, order) for e, kind in pairs), delta))
    return max(0.0, min(found))


def _by_losses(square, pure, sampled, delta):
    losses, masses = _convolved(pure)
    for (multiplier, rate), count in sampled.items():
        losses, masses = _with_sampled(losses, masses, multiplier, rate, count)
    mu = np.sqrt(square)

    def excess(epsilon):
        if mu == 0:
            return masses @ np.maximum(0, -np.expm1(epsilon - losses)) - delta
        shifted = (losses - epsilon) / mu
        with np.errstate(over="ignore", invalid="ignore"):
            second = np.exp(epsilon - losses) * ndtr(shifted - mu / 2)
        return masses @ (ndtr(shifted + mu / 2) - np.nan_to_num(second)) - delta

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return brentq(excess, 0.0, high, xtol=1e-12)


def _convolved(pure):
    """Return the losses of all pure releases together, and their probabilities."""
    counts = {}
    for epsilon, count in pure:
        counts[epsilon] = counts.get(epsilon, 0) + count
    if not counts:
        return np.zeros(1), np.ones(1)
    spread = np.sqrt(sum(count * epsilon**2 for epsilon, count in counts.items()))
    step = STEP * spread
    total, first = np.ones(1), 0
    for epsilon, count in counts.items():
        ups = np.arange(count + 1)
        places = np.rint(epsilon * (2 * ups - count) / step).astype(int)
        one = np.zeros(places[-1] - places[0] + 1)
        np.add.at(one, places - places[0], binom.pmf(ups, count, expit(epsilon)))
        size = len(total) + len(one) - 1
        length = 2 ** int(np.ceil(np.log2(size)))
        total = np.fft.irfft(np.fft.rfft(total, length) * np.fft.rfft(one, length), length)[:size]
        total, first = np.maximum(total, 0.0), first + places[0]
        kept = np.flatnonzero(total > 1e-18)
        total, first = total[kept[0] : kept[-1] + 1], first + kept[0]
    return (first + np.arange(len(total))) * step, total


def _with_sampled(losses, masses, multiplier, rate, count):
    """Return the losses and those of sums over random rows, by powers of a Fourier transform.

    One release: (1 − q) N(0, 1) + q N(s, 1) against the same with −s, s half of one over the multiplier, on a
    fine grid of outcomes whose losses are rounded to the nearest multiple of a step.
    """
    shift = 0.5 / multiplier
    outcomes = np.linspace(-shift - 9, shift + 9, 1_000_001)
    ratio = [np.log(1 - rate + rate * np.exp(sign * shift * outcomes - shift**2 / 2)) for sign in (1, -1)]
    weights = np.exp(-(outcomes**2) / 2 + ratio[0])
    weights /= weights.sum()
    loss = ratio[0] - ratio[1]
    spread = np.sqrt(weights @ loss**2)
    step = spread / 500
    length = 2 ** int(np.ceil(np.log2(2 * np.abs(loss).max() / step + 40 * 500 * np.sqrt(count))))
    one = np.zeros(length)
    np.add.at(one, np.rint(loss / step).astype(int) % length, weights)
    total = np.maximum(np.fft.irfft(np.fft.rfft(one) ** count, length), 0)
    places = np.fft.fftfreq(length, 1 / length)
    kept = total > 1e-17
    if len(losses) > 1:
        raise AssertionError("pure releases beside sampled ones are not recomputed here")
    return losses[0] + places[kept] * step, total[kept] * masses[0]


def _renyi(event, kind, order):
    count = charges(event)
    if kind in ("Gaussian", "DiscreteGaussian"):
        return count * order / 2 / event.noise_multiplier**2
    if kind in PURE:
        return count * min(order * event.epsilon**2 / divisor(event), event.epsilon)
    if kind == "Sketch":
        ratio = 1 / event.ridge
        total = 0.0
        for variance in (1 - ratio, 1 + ratio):  # of N(0, variance) against N(0, 1), per row and direction
            mixture = order + (1 - order) * variance
            if variance <= 0 or mixture <= 0:
                return np.inf
            total += -np.log(variance) / 2 - np.log(mixture) / 2 / (order - 1)
        return count * event.n_rows * total
    return 0.0  # what may fail was taken from δ


def _best_order(divergence, delta):
    def bound(log_order):
        order = 1 + np.exp(log_order)
        return divergence(order) + np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)

    grid = np.linspace(-7, 14, 400)
    values = [bound(point) for point in grid]
    k = int(np.argmin(values))
    near = minimize_scalar(bound, bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 399)]), method="bounded")
    return max(0.0, float(min(near.fun, values[k])))
