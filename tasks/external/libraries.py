"""Foreign libraries as estimators: each file of ``methods`` is called in an environment of its own.

They are known by name to studies, and not listed in the catalog: what they release inside is not known.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Relation, SampledGaussianEvent
from dpalgos.catalog import Estimator, add_foreign
from dpalgos.params import PrivateParams
from tasks.external.environments import python_of
from tasks.external.process import process_of

METHODS = Path(__file__).with_name("methods")
_FOLDERS: list[Path] = []
_FIRST_COLOR = 2000
_ROUNDING = 1.001  # of a claim, beyond which the noise that a library shows violates it


@dataclass(frozen=True)
class Library:
    """A file of methods: what pip installs for it, and the families of problems by method."""

    file: Path
    requires: tuple[str, ...]
    families: Mapping[str, Sequence[str]]
    summary: str

    @property
    def module(self) -> str:
        return f"{__package__}.methods.{self.file.stem}"


@cache
def libraries(folder: Path = METHODS) -> tuple[Library, ...]:
    """Read the files of a folder, without importing what they need."""
    found = []
    for file in sorted(folder.glob("[a-z]*.py")):
        tree = ast.parse(file.read_bytes())
        constants = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        requires, families = (ast.literal_eval(constants[name]) for name in ("REQUIRES", "FAMILIES"))
        summary = (ast.get_docstring(tree) or "").partition("\n")[0]
        found.append(Library(file, tuple(requires), families, summary))
    return tuple(found)


def library_of(estimator: str) -> tuple[Library, str]:
    """Return the library that an estimator is a method of, and the method's name there."""
    return next(
        (library, method)
        for folder in _FOLDERS
        for library in libraries(folder)
        for method in library.families
        if name_of(method) == estimator
    )


def name_of(method: str) -> str:
    """Return the name by which study files know a method: "OpenDP sums" is opendp_sums."""
    return re.sub(r"\W+", "_", method).lower()


def requirements_of(estimator: str) -> tuple[str, ...]:
    """Return what the environment of an estimator has to have; nothing for one of this project."""
    return library_of(estimator)[0].requires if dpalgos.get_estimator(estimator).foreign else ()


def answer(
    estimator: str,
    table: Mapping[str, Any],
    *,
    seeds: Sequence[int],
    seconds: float,
    epsilon: float,
    delta: float,
) -> dpalgos.Result:
    """Return a method's answers on a table with public bounds, one for each seed; refuse what takes longer.

    What its noise proves is certified where the method shows it.
    """
    library, method = library_of(estimator)
    process = process_of(library.file, python_of(library.requires))
    process.load(table)
    answers = process.fits(method, seeds, seconds, epsilon=epsilon, delta=delta)
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
    found = certified_epsilon(events, delta)
    if found > _ROUNDING * epsilon:
        raise dpalgos.InputError(f"the noise that it shows proves ε = {found:.4g}, and it claims {epsilon:g}")
    return min(found, epsilon)


def register(folder: Path) -> None:
    """Make the methods of a folder known by name."""
    _FOLDERS.append(folder)
    for library in libraries(folder):
        for place, method in enumerate(library.families):
            add_foreign(_entry(library, method, _FIRST_COLOR + place))


def _entry(library: Library, method: str, order: int) -> Estimator:
    def refuse(sample: Any, params: Any, transcript: Any) -> Any:
        raise dpalgos.InputError(
            f"{method} runs in an environment of its own, on whole tables of studies alone"
        )

    refuse.__module__ = library.module  # whose file decides its answers
    return Estimator(
        name=name_of(method),
        title=method,
        task="any",
        relation=Relation.CENTRAL,
        reference=", ".join(library.requires),
        summary=library.summary,
        calibrations=("tight",),
        parameters=PrivateParams,
        function=refuse,
        foreign=True,
        no_interval="it is called for its answers alone",
        no_release="its own library releases it",
        order=order,
    )


register(METHODS)
