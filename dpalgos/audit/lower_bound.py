"""Audits: an empirical lower bound on ε, by an adversary who sees every release of many runs.

1. Replay: measure how far each private value moves between neighbors, given the same
   history, in units of its declared sensitivity.
2. Compare: make a few runs on the four pairs whose private values are farthest apart in units of noise. Keep
   the farthest pair, and the pair with the largest predicted bound.
3. Choose: make n/2 runs on these. Choose the pair, the distinguisher, the direction and the threshold.
4. Test: make n fresh runs on each of the two datasets. Count how often that one event occurs.

Steps 2 to 4 are those of :mod:`dpalgos.audit.attack`, which also audits mechanisms of other libraries.

The pairs have rows far outside of every bound (:func:`dpalgos.release.declared.shared_pairs`). Some releases
have pairs of their own.

The runs that choose also estimate the size of the drawn noise, and the ε that the events prove with it
(:mod:`dpalgos.audit.drawn_noise`). This finds noise that is too small with any pair.

If the bound is above the certified ε, the guarantee is false, with that confidence. If it is below, nothing
is proved. :func:`dpalgos.audit.rates.detectable_fault` returns the faults that n runs can detect. Leaks
through the last bits of floats are excluded, because scores are rounded. The random source of
:func:`dpalgos.estimate` is audited only if ``noise`` passes it.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.accounting.composition import certified_epsilon, exact_mu
from dpalgos.accounting.events import Relation, UnprotectedEvent
from dpalgos.api import build_params
from dpalgos.audit.attack import AuditVerdict, EventBounds, attack
from dpalgos.audit.distinguishers import Discriminant, all_scores
from dpalgos.audit.drawn_noise import DrawnNoise, epsilon_of_drawn_noise
from dpalgos.audit.hardened_trials import HardenedTrials
from dpalgos.audit.rates import CONFIDENCE, detectable_fault, epsilon_lower_bound
from dpalgos.audit.trials import BatchNoise, NoiseFactory, Pair, Runs, Trials, pairs
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.errors import InputError
from dpalgos.hardened_release import rehearse_release
from dpalgos.params import Params
from dpalgos.release.checks import check_how_many
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray

_N_COMPARED = 4  # pairs
_MOST_MOVED = 1 + 1e-6  # sensitivities; a larger move is not rounding
_FAILURE_TRIALS = 1000


@dataclass(frozen=True, kw_only=True)
class AuditResult(AuditVerdict):
    """The result of an audit of an estimator.

    Attributes
    ----------
    certified_epsilon : float
        The ε that the accountant proves from the events.
    claimed_epsilon : float
        The ε that the bound is compared with: the certified one, and for ``tight`` at most ``epsilon``.
    detectable_fault : float
        The smallest factor on the noise scale that attacks with this number of runs detect, at the claimed ε.
    noise_epsilon : float
        The ε that the events prove with the drawn noise, if the upper confidence limits ``noise_ratios`` of
        its scale are below 1.
    largest_move : float
        The distance between the private values of the release ``moved`` on two neighbors, over its declared
        sensitivity.
    """

    estimator: str
    calibration: str
    certified_epsilon: float
    claimed_epsilon: float
    detectable_fault: float
    noise_epsilon: float
    noise_ratios: dict[str, float]
    largest_move: float
    moved: str

    @property
    def violated(self) -> bool:
        """Whether the runs contradict the claim."""
        proved = max(self.epsilon_lower_bound, self.noise_epsilon / (1 + 1e-9))
        return (
            proved > self.claimed_epsilon
            or self.mu_lower_bound > self.mu * (1 + 1e-9)
            or self.largest_move > _MOST_MOVED
            or any(ratio < 1 for ratio in self.noise_ratios.values())
        )

    @property
    def remark(self) -> str:
        """A sentence on values that move more, or noise that is smaller, than declared; or empty."""
        if self.largest_move > _MOST_MOVED:
            return (
                f"; between two neighbors {self.moved!r} moves by {self.largest_move:.3f} times the "
                "sensitivity that is declared"
            )
        small = [(ratio, label) for label, ratio in self.noise_ratios.items() if ratio < 1]
        if not small:
            return ""
        ratio, label = min(small)
        return (
            f"; the noise of {label!r} is at most {ratio:.3f} times what is declared, with which the events "
            f"prove ε = {self.noise_epsilon:.3f}"
        )


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
    params: Params,
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
    bounds = EventBounds(n_trials, float(getattr(params, "delta", np.nan)))

    trials = Trials(estimator, params, rng, noise)
    if hardened is not None:
        n_users = 2 if estimator.relation is Relation.USER else None
        plan = rehearse_release(estimator.name, 1, n_features, hardened, n_users=n_users)
        trials = HardenedTrials(estimator, params, rng, noise, plan.inflation)
    audited = _Audit(trials, bounds)
    candidates = pairs(estimator, params, n_features)
    for pair in candidates:
        if any(audited.trials.fails(either) for either in (pair, pair.swapped)):
            return audited.of_failure(pair)
    return audited.of_releases(candidates)


@dataclass(frozen=True)
class _Audit:
    trials: Trials
    bounds: EventBounds
    drawn: DrawnNoise = dataclasses.field(default_factory=DrawnNoise)

    def of_releases(self, candidates: list[Pair]) -> AuditResult:
        """Audit the releases: replay witnesses, and attack."""
        events = self.trials.events(candidates)
        replayed = [(self.trials.replay(pair), pair) for pair in candidates]
        # Reports and sampled rows have no distance: then all pairs are compared.
        far = [pair for found, pair in sorted(replayed, key=lambda each: -each[0].distance) if found.distance]
        compared = far[:_N_COMPARED] or candidates
        # Sensitivities mean nothing if a release is unprotected.
        is_stated = not any(isinstance(event, UnprotectedEvent) for event in events)
        moves = [found.largest for found, _ in replayed if is_stated]
        if (mu := exact_mu(events)) is not None:
            self = dataclasses.replace(self, bounds=dataclasses.replace(self.bounds, mu=mu))

        def fit(first: Runs, second: Runs) -> Callable[[Runs], dict[str, FloatArray]]:
            discriminant = Discriminant(first, second)
            return lambda runs: all_scores(runs, discriminant)

        # Responses may not be class labels.
        attacked = attack(
            compared,
            self.trials.chunks,
            fit,
            self.bounds,
            observe=lambda runs: self.drawn.add(runs.first),
            refusals=(InputError,),
        )
        if attacked is None:
            name = self.trials.estimator.name
            raise InputError(f"{name} refuses every pair of neighbors; check its keywords")
        largest, moved = max(moves, default=(0.0, ""))
        result = self._result(attacked.pair, self.bounds.n_trials, attacked.event.name, *attacked.counts)
        return dataclasses.replace(
            result,
            mu=self.bounds.mu,
            mu_lower_bound=attacked.proved[1],
            largest_move=largest,
            moved=moved,
        )

    def of_failure(self, pair: Pair) -> AuditResult:
        """Audit whether a run fails with an error that does not concern the input."""
        n = min(self.bounds.n_trials, _FAILURE_TRIALS)
        counts = [sum(self.trials.fails(either) for _ in range(n)) for either in (pair, pair.swapped)]
        return self._result(pair, n, "whether it fails", max(counts), min(counts))

    def _result(self, pair: Pair, n: int, distinguisher: str, hits: int, false_hits: int) -> AuditResult:
        params, delta = self.trials.params, self.bounds.delta
        calibration = str(getattr(params, "calibration", ""))
        epsilon = float(getattr(params, "epsilon", np.nan))
        events = self.trials.events([pair, pair.swapped])
        certified, ratios = certified_epsilon(events, delta), self.drawn.ratios()
        claimed = min(certified, epsilon) if calibration == "tight" else certified
        detectable = np.inf
        if 0 < claimed < np.inf:
            detectable = detectable_fault(n, claimed, delta)
        return AuditResult(
            estimator=self.trials.estimator.name,
            calibration=calibration,
            epsilon=epsilon,
            delta=delta,
            certified_epsilon=certified,
            claimed_epsilon=claimed,
            epsilon_lower_bound=float(epsilon_lower_bound(hits, false_hits, n, delta)),
            confidence=CONFIDENCE,
            n_trials=n,
            pair=pair.label,
            distinguisher=distinguisher,
            true_positive_rate=hits / n,
            false_positive_rate=false_hits / n,
            detectable_fault=detectable,
            noise_epsilon=epsilon_of_drawn_noise(events, ratios, delta)
            if min(ratios.values(), default=1) < 1
            else 0.0,
            noise_ratios=ratios,
            largest_move=0.0,
            moved="",
        )
