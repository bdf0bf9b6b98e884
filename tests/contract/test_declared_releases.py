"""What an estimator declares to release is what a run of each form releases, made where it is declared.

Sensitivities made of n, d and keywords are evaluated and compared with those of the events.
"""

import inspect
import re
import warnings
from traceback import walk_stack

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import spending
from dpalgos.api import build_params
from dpalgos.release.declared import Release
from dpalgos.release.transcript import Transcript
from tests.contract.forms import EVERY, FAMILIES, IDS, answered, keywords

PRIVATE = [(estimator, calibration) for estimator, calibration in EVERY if estimator.private]
IN_FAMILIES = [(estimator, calibration) for estimator, calibration in FAMILIES if estimator.private]
each_form = pytest.mark.parametrize(("estimator", "calibration"), PRIVATE + IN_FAMILIES, **IDS)
# Noise is added there, for whoever calls.
SHARED = ("dpalgos/release/", "dpalgos/mechanisms/", "dpalgos/local/rounds.py")


class Traced(Transcript):
    """Keeps the functions that a release was made in, from the innermost."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stacks = {}

    def record(self, *events):
        codes = [frame.f_code for frame, _ in walk_stack(None)]
        for event in events:
            self.stacks.setdefault(label(event), []).append(codes)
        super().record(*events)


def label(event):
    return re.sub(r"round \d+$", "round t", event.label)


def released(estimator, calibration, monkeypatch, d=3):
    transcripts = []

    def made(*arguments):
        transcripts.append(Traced(*arguments))
        return transcripts[-1]

    monkeypatch.setattr("dpalgos.api.Transcript", made)
    monkeypatch.setattr("dpalgos.tuning.sparsity.Transcript", Traced)
    X = np.random.default_rng(0).uniform(-1, 1, (200, d))
    answered(estimator, calibration, X, X[:, 0])
    return transcripts[0]


def own_file(codes):
    """Return the file of the innermost function that no other estimator calls."""
    files = (code.co_filename for code in codes if "dpalgos" in code.co_filename)
    return next(file for file in files if not any(part in file for part in SHARED))


@each_form
def test_a_form_releases_what_it_declares(estimator, calibration, monkeypatch):
    params = build_params(estimator, keywords(estimator, calibration))
    run = released(estimator, calibration, monkeypatch)
    possible = [one for one in estimator.releases if one.when(params) is not False]
    certain = {one.label for one in possible if one.when(params)}
    assert certain <= {label(event) for event in run.events} <= {one.label for one in possible}
    for one in possible:
        for codes in run.stacks.get(one.label, []):
            if one.made_in is None:
                assert own_file(codes) == inspect.getfile(estimator.function), one.label
            else:
                assert inspect.unwrap(one.made_in).__code__ in codes, f"{one.label} is not made there"
        share, own = one.share_for(params), [event for event in run.events if label(event) == one.label]
        sampled = any(hasattr(event, "sampling_rate") for event in own)
        if calibration == "tight" and own and not sampled and not isinstance(share, str):
            part = spending(own).rho / spending(run.events).rho
            assert part == pytest.approx(share, abs=6e-4), one.label


def evaluated(release, **known):
    """Return the value of a sensitivity, or None where it is words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # words in parentheses
            value = eval(release.sensitivity, {"__builtins__": {}}, known)
    except (SyntaxError, NameError):
        return None
    return value if isinstance(value, int | float | np.number) else None


@pytest.mark.parametrize(
    ("formula", "value"),
    [("sqrt(2)/n", 2**0.5 / 100), ("min(d + 1, 3)/n", 0.03), ("2 * bound**2", 8.0), ("1", 1)]
    + [(words, None) for words in ("2C/n", "of a loss", "√2 B²/n", "unbounded", "2 * other_bound", "c/n")],
)
def test_a_formula_is_evaluated_and_words_are_not(formula, value):
    release = Release("x", 1.0, formula)
    found = evaluated(release, n=100, d=5, bound=2.0, sqrt=np.sqrt, min=min, max=max)
    assert (found is None) if value is None else found == pytest.approx(value)


TIGHT = [each for each in PRIVATE if each[1] == "tight"]


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize(("estimator", "calibration"), TIGHT, **IDS)
def test_the_declared_sensitivities_are_those_of_the_events(estimator, calibration, d, monkeypatch):
    given = keywords(estimator, calibration)
    params = build_params(estimator, given)
    n, covariates = 100 if estimator.unit_of_privacy == "user" else 200, d - ("offset_bounds" in given)
    known = {**vars(params), "n": n, "d": covariates, "sqrt": np.sqrt, "min": min, "max": max}
    made = [one for one in estimator.releases if one.when(params) is not False]
    values = {one.label: value for one in made if (value := evaluated(one, **known)) is not None}
    if not values:
        pytest.skip("follow from what a run releases")
    try:
        run = released(estimator, calibration, monkeypatch, d)
    except dpalgos.InputError as error:
        pytest.skip(f"another number of columns is refused: {error}")
    for event in run.events:
        charged = getattr(event, "l2_sensitivity", getattr(event, "sensitivity", None))
        if label(event) in values and charged is not None:
            assert np.max(charged) == pytest.approx(values[label(event)], rel=1e-6), label(event)


@pytest.mark.parametrize("estimator", [one for one in dpalgos.catalog() if one.private], ids=lambda e: e.name)
def test_the_table_has_a_row_for_each_release(estimator):
    rows = estimator.releases_table()
    assert [row["quantity"] for row in rows] == [one.label for one in estimator.releases]
    assert all(cell.strip() for row in rows for cell in row.values())
