"""Forecasts for a page, from its study file and plan: no row is read."""

from functools import lru_cache
from pathlib import Path
from threading import Lock

from data.store.folders import sha256_file
from tasks.advice.releases import ReleaseForecast, SimulatedRelease, simulate_release
from tasks.protocol.plan_file import PlanFile, read_plan

TABLES = 8  # synthetic ones, which answer within a second
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ONE = Lock()  # forecasts share two cores with the page


def plan_of(file: Path) -> PlanFile:
    """Return a plan as its files state it now."""
    return read_plan(file)


def forecast(plan: PlanFile, question: str, epsilon: float) -> ReleaseForecast:
    """Return the forecast of a question at an ε; the same declarations are simulated once."""
    digests = plan.sha256, sha256_file(plan.path.parent / plan.plan.study)
    with _ONE:
        return _forecast(_Key(plan, question, digests), epsilon)


class _Key:
    """A question of a plan, equal to another if the files are."""

    def __init__(self, plan: PlanFile, question: str, digests: tuple[str, str]) -> None:
        self.plan, self._of = plan, (question, digests)
        self.question = question

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._of == self._of

    def __hash__(self) -> int:
        return hash(self._of)


@lru_cache(maxsize=16)
def _simulated(key: _Key) -> SimulatedRelease:
    return simulate_release(key.plan.request(key.question, key.plan.plan.epsilon), TABLES)


@lru_cache(maxsize=512)
def _forecast(key: _Key, epsilon: float) -> ReleaseForecast:
    return _simulated(key).forecast(epsilon)
