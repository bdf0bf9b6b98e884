"""Foreign libraries as estimators: each file of ``methods`` is called in an environment of its own.

Studies know them by name, and the catalog does not list them: what they release inside is not known.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Relation, SampledGaussianEvent
from dpalgos.catalog import Estimator, add_foreign
from dpalgos.params import PrivateParams
from tasks.external.environments import python_of
from tasks.external.process import LibraryProcess, process_of

METHODS = Path(__file__).with_name("methods")
_FIRST_COLOR = 2000
_ROUNDING = 1.001  # of a claim, beyond which the noise that a library shows violates it


@dataclass(frozen=True)
class Method:
    """A method of a library: its file, what pip installs for it, and the families that it fits."""

    title: str
    file: Path
    requires: tuple[str, ...]
    families: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name in study files: "OpenDP sums" is opendp_sums."""
        return re.sub(r"\W+", "_", self.title).lower()

    def process(self) -> LibraryProcess:
        return process_of(self.file, python_of(self.requires))


methods: dict[str, Method] = {}  # by name


def register(folder: Path) -> None:
    """Make the methods of a folder's files known by name, without importing what they need."""
    for file in sorted(folder.glob("[a-z]*.py")):
        tree = ast.parse(file.read_bytes())
        literals = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        requires, families = (ast.literal_eval(literals[name]) for name in ("REQUIRES", "FAMILIES"))
        summary = (ast.get_docstring(tree) or "").partition("\n")[0]
        for place, title in enumerate(families):
            method = Method(title, file, tuple(requires), tuple(families[title]))
            methods[method.name] = method
            add_foreign(_entry(method, summary, _FIRST_COLOR + place))


def _entry(method: Method, summary: str, order: int) -> Estimator:
    def refuse(sample: Any, params: Any, transcript: Any) -> Any:
        raise dpalgos.InputError(
            f"{method.name} runs in an environment of its own, on problems of kind whole_table alone"
        )

    refuse.__module__ = f"{__package__}.methods.{method.file.stem}"  # whose file decides its answers
    return Estimator(
        name=method.name,
        title=method.title,
        task="any",
        relation=Relation.CENTRAL,
        reference=", ".join(method.requires),
        summary=summary,
        calibrations=("tight",),
        parameters=PrivateParams,
        function=refuse,
        foreign=True,
        no_interval="it is called for its estimates only",
        no_release="its own library releases it",
        order=order,
    )


def answer(
    name: str, table: Mapping[str, Any], *, seeds: Sequence[int], seconds: float, epsilon: float, delta: float
) -> dpalgos.Result:
    """Return a method's answers on a table with public bounds, one for each seed; refuse what takes longer.

    The noise of a method is certified if the method shows it.
    """
    method = methods[name]
    process = method.process()
    process.load(table)
    answers = process.fits(method.title, seeds, seconds, epsilon=epsilon, delta=delta)
    estimates = np.array([each["coef"] for each in answers], dtype=float).T
    return dpalgos.Result(
        estimate=estimates[:, 0] if len(seeds) == 1 else estimates,
        certified_epsilon=proved(answers[0], epsilon, delta),
        delta=delta,
        events=(),
        diagnostics={},
    )


def proved(answer: Mapping[str, Any], epsilon: float, delta: float) -> float:
    """Return the ε that the noise which a method shows proves, NaN if none; refuse more than it claims."""
    if not answer["releases"]:
        return np.nan
    events = [
        SampledGaussianEvent(
            label="a release",
            noise_multiplier=each["multiplier"],
            l2_sensitivity=1.0,
            sampling_rate=each["rate"],
            count=int(each["times"]),
        )
        for each in answer["releases"]
    ]
    epsilon_of_events = certified_epsilon(events, delta)
    if epsilon_of_events > _ROUNDING * epsilon:
        raise dpalgos.InputError(
            f"the noise that it shows proves ε = {epsilon_of_events:.4g}, and it claims {epsilon:g}"
        )
    return min(epsilon_of_events, epsilon)


register(METHODS)
