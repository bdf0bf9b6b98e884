"""Audits: an empirical lower bound on ε, by an adversary who sees every release of many runs.

0. Check: with the same releases, neighbors must have the same estimate. Otherwise the audit ends here.
1. Replay: measure how far each private value moves between neighbors, given the same
   history, in units of its declared sensitivity.
2. Compare: make a few runs on the four pairs whose private values are farthest apart in units of noise. Keep
   the farthest pair, and the pair with the largest predicted bound.
3. Choose: make n/2 runs on these. Choose the pair, the distinguisher, the direction and the threshold.
4. Test: make n fresh runs on each of the two datasets. Count how often that one event occurs.

Steps 2 to 4 are those of :mod:`dpalgos.audit.attack`, which also audits mechanisms of other libraries.

The pairs have rows far outside of every bound (:func:`dpalgos.mechanisms.witnesses.shared_pairs`). Some
releases have pairs of their own.

The runs that choose also estimate the size of the drawn noise, and the ε that the events prove with it. This
finds noise that is too small with any pair.

If the bound is above the certified ε, the guarantee is false, with that confidence. If it is below, nothing
is proved. :func:`dpalgos.audit.rates.detectable_fault` returns the faults that n runs can detect. Leaks
through the last bits of floats are excluded, because scores are rounded. The random source of
:func:`dpalgos.estimate` is audited only if ``noise`` passes it.

**The drawn noise.** Whether it was as large as the events state is seen from the adversary's view of a run.
An adversary who knows the data knows each private value given the earlier releases, and so its noise. Let a
release have k numbers, and let r be its noise over the declared scale. If the noise is as declared, then

    Gaussian      r² / 2 is Gamma(1/2),        Laplace                    |r| is Gamma(1),
    in a cube     max |r| is Gamma(k),         sketch of N rows, r white  Σ r² / 2 is Gamma(N k / 2).

If the noise is c times the declared noise, a sum over runs is a Gamma variable times a power of c. The
quantile of the Gamma variable gives an exact upper confidence limit of c.

A selection with Gumbel noise releases no number, but the winners of many runs show its noise. Take the
likelihood ratio of half of the declared noise against c times the declared noise. If the noise is c times the
declared noise or more, the mean of this ratio is at most 1. By Markov's inequality the ratio exceeds 1/α with
probability at most α.

The likelihood ratio of a run of Gaussian releases is that of N(μ, 1) against N(0, 1). Here μ² is the
sum of the releases' (sensitivity / noise)² at the worst pair. With c times the declared noise it becomes that
of N(μ/c, 1). At a pair that attains all sensitivities, the ε of the events with c times their multipliers is
exact. The contract suite shows for each release by itself that its sensitivity is attained. Estimating c
takes far fewer runs than counting how often the likelihood ratio is large. Counting shows a factor of 2.14 in
a hundred thousand runs at ε = 0.5.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy

from dpalgos.accounting.composition import certified_epsilon, exact_mu
from dpalgos.accounting.events import Event, GaussianNoise, Relation
from dpalgos.accounting.other_events import Cube, Selection, Sketch
from dpalgos.api import build_params
from dpalgos.audit.attack import AuditResult, attack
from dpalgos.audit.distinguishers import log_density
from dpalgos.audit.rates import CONFIDENCE, detectable_fault, epsilon_lower_bound
from dpalgos.audit.trials import BatchNoise, DependsOnData, NoiseFactory, Pair, ReleasedVector, Trials, pairs
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.core.estimator import AnyEstimator
from dpalgos.errors import InputError
from dpalgos.hardened_release import release_plan
from dpalgos.params import check_how_many
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray

_N_COMPARED = 4  # pairs
_FAILURE_TRIALS = 1000
_RESOLVED = 1e-6  # of the noise; a larger value leaves too few digits to it
_FEWEST = 100


def audit_estimator(
    name: str,
    *,
    rng: np.random.Generator,
    n_trials: int = 100_000,
    n_features: int = 3,
    hardened: bool = False,
    people: bool = False,
    progress: Callable[[int], None] | None = None,
    **keywords: Any,
) -> AuditResult:
    """Audit a private estimator of the catalog with ``n_trials`` runs on each of two neighbors.

    About as many runs are made to choose the neighbors. ``progress`` is called with the number of runs begun
    so far. ``keywords`` are ε, δ, the calibration, public bounds and settings. Missing bounds and settings
    are those of the catalog's example. If ``hardened``, the noise is that of releases about real people,
    drawn run by run. If ``people``, the neighbors are all rows of one person.
    """
    estimator = get_estimator(name).for_unit(people=people)
    if people and estimator.relation is not Relation.USER:
        raise InputError(f"people must be False for {name}, which protects a row, got True")
    if not estimator.private:
        raise InputError(f"estimator must be a private one, got {name!r}, which claims no ε to audit")
    # Arrays of an example have its own number of columns; a trial's sample brings public rows.
    example = {k: v for k, v in estimator.example.items() if np.shape(v)[-1:] in ((), (n_features,))}
    settings = {"calibration": "tight", **example, **keywords}
    n_begun = 0

    def noise(rng: np.random.Generator, n_replicates: int) -> Noise:
        nonlocal n_begun
        n_begun += n_replicates
        if progress:
            progress(n_begun)
        return BatchNoise(rng, n_replicates)

    params = build_params(estimator, settings)
    options: dict[str, Any] = {"n_trials": n_trials, "n_features": n_features, "rng": rng, "noise": noise}
    return audit(estimator, params, hardened=settings if hardened else None, **options)


def audit(
    estimator: Estimator,
    params: AnyEstimator,
    *,
    n_trials: int,
    rng: np.random.Generator,
    n_features: int = 3,
    noise: NoiseFactory = BatchNoise,
    hardened: dict[str, Any] | None = None,
) -> AuditResult:
    """Audit any estimator, e.g. a faulty one; ``noise`` makes the random source of a chunk of trials.

    ``hardened`` holds the keywords of a release, whose noise is drawn run by run. The other arguments are
    those of :func:`audit_estimator`.
    """
    n_trials, n_features = check_how_many("n_trials", n_trials), check_how_many("n_features", n_features)
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, got {type(rng).__name__}")
    inflation = None
    if hardened is not None:
        n_users = 2 if estimator.relation is Relation.USER else None
        inflation = release_plan(estimator.name, 1, n_features, hardened, n_users=n_users).inflation
    trials = Trials(estimator, params, rng, noise, inflation)
    candidates = pairs(estimator, params, n_features)
    if leak := next(filter(None, map(trials.leak, candidates)), ""):
        return dataclasses.replace(_claim(trials, trials.events(candidates), n_trials), leak=leak)
    replayed = []
    for pair in candidates:
        try:
            replayed.append((*trials.replay(pair), pair))
        except DependsOnData:
            raise
        except Exception:  # an adversary would observe it
            return _audit_failure(trials, pair, n_trials)
    replayed.sort(key=lambda each: -each[0])
    return _audit_releases(trials, replayed, n_trials)


def _audit_releases(
    trials: Trials, replayed: list[tuple[float, float, str, Pair]], n_trials: int
) -> AuditResult:
    """Attack the pairs whose private values are farthest apart, and compare the drawn noise."""
    candidates, drawn = [pair for *_, pair in replayed], DrawnNoise()
    events = trials.events(candidates)
    claim = _claim(trials, events, n_trials)
    # Reports and sampled rows have no distance: then all pairs are compared.
    far = [pair for distance, *_, pair in replayed if distance][:_N_COMPARED] or candidates
    result = attack(
        claim,
        far,
        trials.chunks,
        observe=lambda runs: drawn.add(runs.first),
        refusals=(InputError,),  # responses may not be class labels
    )
    if result is None:
        raise InputError(f"{claim.estimator} refuses every pair of neighbors; check its keywords")
    ratios = drawn.ratios()
    if min(ratios.values(), default=1) < 1:
        result = dataclasses.replace(
            result, noise_epsilon=epsilon_of_drawn_noise(events, ratios, claim.delta)
        )
    # Sensitivities mean nothing if a release is unprotected.
    is_stated = not any(event.is_unprotected for event in events)
    largest, moved = max((each[1:3] for each in replayed if is_stated), default=(0.0, ""))
    return dataclasses.replace(result, noise_ratios=ratios, largest_move=largest, moved=moved)


def _audit_failure(trials: Trials, pair: Pair, n_trials: int) -> AuditResult:
    """Audit whether a run fails with an error that does not concern the input."""
    n = min(n_trials, _FAILURE_TRIALS)
    claim = _claim(trials, trials.events([pair, pair.swapped]), n)
    counts = [sum(trials.fails(either) for _ in range(n)) for either in (pair, pair.swapped)]
    return dataclasses.replace(
        claim,
        mu=np.nan,
        pair=pair.label,
        distinguisher="whether it fails",
        epsilon_lower_bound=float(epsilon_lower_bound(max(counts), min(counts), n, claim.delta)),
        true_positive_rate=max(counts) / n,
        false_positive_rate=min(counts) / n,
    )


def _claim(trials: Trials, events: list[Event], n_trials: int) -> AuditResult:
    """Return what an estimator claims, by its keywords and events."""
    epsilon, delta = (float(getattr(trials.params, name, np.nan)) for name in ("epsilon", "delta"))
    calibration, certified = str(getattr(trials.params, "calibration", "")), certified_epsilon(events, delta)
    claimed, mu = min(certified, epsilon) if calibration == "tight" else certified, exact_mu(events)
    return AuditResult(
        estimator=trials.estimator.name,
        calibration=calibration,
        epsilon=epsilon,
        delta=delta,
        certified_epsilon=certified,
        claimed_epsilon=claimed,
        n_trials=n_trials,
        mu=np.nan if mu is None else mu,
        detectable_fault=detectable_fault(n_trials, claimed, delta) if 0 < claimed < np.inf else np.inf,
    )


_HALF, _REJECTED = 0.5, (0.99, 0.75)  # of the declared noise of a selection


@dataclass
class DrawnNoise:
    """The drawn noise over runs, by the label of its release.

    ``gamma`` holds the number and the sum of its Gamma variables, their shape and power. For selections,
    ``evidence`` is the logarithm of each likelihood ratio.
    """

    gamma: dict[str, tuple[int, float, float, float]] = field(default_factory=dict)
    evidence: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, releases: Sequence[ReleasedVector]) -> None:
        for release in releases:
            event = release.events[0] if release.events else None
            with np.errstate(all="ignore"):  # from values that overflowed
                if isinstance(event, Selection) and event.by != "peeling":
                    self._add_selection(release, event)
                elif event is not None and (law := _sizes(release, event)) is not None:
                    sizes, shape, power = law
                    count, total, *_ = self.gamma.get(event.label, (0, 0.0))
                    self.gamma[event.label] = count + len(sizes), total + float(sizes.sum()), shape, power

    def _add_selection(self, release: ReleasedVector, event: Selection) -> None:
        if release.by_column:
            return
        laws = (replace(release, events=(event.scaled(factor),)) for factor in (_HALF, *_REJECTED))
        densities = [log_density(law, by_magnitude=event.by_magnitude) for law in laws]
        known = [each for each in densities if each is not None]
        if known:
            ratios = [np.nan_to_num(known[0] - each, nan=0, posinf=0, neginf=0).sum() for each in known[1:]]
            self.evidence[event.label] = self.evidence.get(event.label, np.zeros(len(ratios))) + ratios

    def ratios(self) -> dict[str, float]:
        """Return, by label, an upper confidence limit of the noise scale over the declared one."""
        tail, limits = (1 - CONFIDENCE) / max(len(self.gamma) + len(self.evidence), 1), {}
        for label, (count, total, shape, power) in self.gamma.items():
            if count >= _FEWEST:
                limits[label] = float(total / scipy.special.gammaincinv(shape * count, tail)) ** power
        for label, evidence in self.evidence.items():
            for factor, log_ratio in zip(_REJECTED, evidence, strict=True):
                if log_ratio > -np.log(tail):
                    limits[label] = factor
        return limits


def epsilon_of_drawn_noise(events: Sequence[Event], ratios: dict[str, float], delta: float) -> float:
    """Return the ε that the events prove with the drawn noise, if it is smaller than declared."""
    return certified_epsilon(
        [event.scaled(min(ratios.get(event.label, 1.0), 1.0)) for event in events], delta
    )


def _sizes(release: ReleasedVector, event: Event) -> tuple[FloatArray, float, float] | None:
    """Return Gamma variables of a release's noise, and their declared shape and power."""
    value, published = release.value, release.published
    if isinstance(event, Sketch):
        distance = np.einsum("rij,rpi,rpj->r", np.linalg.inv(value), published, published)
        return np.asarray(distance / 2), event.n_rows * value.shape[-1] / 2, 0.5
    scale = event.noise_scale
    if scale is None or published.dtype.kind != "f" or published.shape != value.shape:
        return None
    is_resolved = (np.abs(value) < _RESOLVED / np.finfo(float).eps * scale) & np.isfinite(published)
    sizes = event.negative_log_density((published - value) / scale)
    if isinstance(event, Cube):
        return sizes[0, is_resolved.all(axis=0)], len(value), 1.0
    half = 0.5 if isinstance(event, GaussianNoise) else 1.0
    return sizes[is_resolved], half, half
