"""Finding studies: ``flows/studies/*.toml`` by name, or any study file by path."""

import difflib
from pathlib import Path

from data.registry import Dataset, get_dataset
from tasks.problems.subsamples import Subsamples
from tasks.problems.train_test_split import RandomHalves
from tasks.study.spec import SpecError, StudySpec
from tasks.study.study_file import load_study

STUDIES = Path(__file__).parent / "studies"


SCORECARD = "scorecard"  # no study of its own: it judges the results of others


def study_names() -> list[str]:
    """Return the names of the studies that come with the project."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def with_evidence(studies: list[str]) -> list[str]:
    """Return the studies to run: where the scorecard is among them, those that it judges come first."""
    if SCORECARD not in studies:
        return studies
    from tasks.scorecard.claims import load_scorecard

    others = [study for study in studies if study != SCORECARD]
    return [*dict.fromkeys([*others, *load_scorecard().studies]), SCORECARD]


def find_study(name: str) -> StudySpec:
    """Return a study by name, or by the path of a ``.toml`` file.

    Raises
    ------
    SpecError
        If there is none of that name (the message names the nearest match), or the file is wrong.
    DataError
        If its dataset, or a column of it, is unknown.
    """
    if name.endswith(".toml"):
        return _suiting_its_data(load_study(Path(name)))
    known = study_names()
    if name == SCORECARD:
        raise SpecError(
            "scorecard has no blocks of its own: it judges the results of other studies; "
            "use dpcost run scorecard, dpcost report scorecard, or name the study that a claim is about"
        )
    if name not in known:
        known = [*known, SCORECARD]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of: {', '.join(known)}"
        raise SpecError(f"study must be a known name or a .toml file, got {name!r}; {hint}")
    return _suiting_its_data(load_study(STUDIES / f"{name}.toml"))


def _suiting_its_data(spec: StudySpec) -> StudySpec:
    for panel in spec.panels:
        if isinstance(panel.problem, Subsamples):
            _check_subsamples(spec, panel.problem, max(spec.grid_of(panel).n))
        elif isinstance(panel.problem, RandomHalves):
            _check_halves(spec, panel.problem, max(spec.grid_of(panel).n))
        elif not panel.problem.simulated:
            dataset = get_dataset(panel.problem.source)
            _check_deleted(spec, dataset)
            if dataset.kind != "genotypes":
                raise SpecError(f"{spec.name}: dataset must hold genotypes, got {dataset.name!r}")
    return spec


def _check_halves(spec: StudySpec, problem: RandomHalves, largest: int) -> None:
    dataset = get_dataset(problem.dataset)
    if dataset.kind != "frames":
        raise SpecError(f"{spec.name}: dataset must hold frames, got {dataset.name!r}")
    if largest >= dataset.n_rows:
        raise SpecError(
            f"{spec.name}: grid.n must be below the {dataset.n_rows:,} rows of {dataset.name}, so that some "
            f"are left to test on, got {largest}; take the larger ones out"
        )


def _check_subsamples(spec: StudySpec, problem: Subsamples, largest: int) -> None:
    dataset = get_dataset(problem.dataset)
    for name in (problem.response, *problem.covariates):
        dataset.column(name)
    if largest > dataset.n_rows:
        raise SpecError(
            f"{spec.name}: grid.n must be at most the {dataset.n_rows:,} rows of {dataset.name}, "
            f"got {largest}; take the larger ones out"
        )
    _check_deleted(spec, dataset)


def _check_deleted(spec: StudySpec, dataset: Dataset) -> None:
    largest = max(spec.deleted_rows, default=0)
    if largest > dataset.n_rows:
        raise SpecError(
            f"{spec.name}: deleted_rows must be at most the {dataset.n_rows:,} rows of {dataset.name}, "
            f"got {largest}; take the larger ones out"
        )
