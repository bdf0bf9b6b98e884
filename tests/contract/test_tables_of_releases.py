"""The table of releases in an estimator's header is what a run of each form releases, made where it says.

Sensitivities made of numbers, n, d and public bounds are evaluated and compared with those of the events.

A table begins with a row ``quantity  sensitivity  share  made in  forms``; its quantities are the labels of
the events. ``forms`` says which forms a row is of: ``all``, or words of their names and ``tight`` or
``paper``, joined by ``or``, ``and``, ``not``; ``not a or b`` excludes both. A share that is a number is the
label's share of μ², or of ρ where not all noise is Gaussian. ``those of MODULE`` stands for the rows of the
table of ``dpalgos.MODULE``, which share what their row says.
"""

import inspect
import re
import sys
from importlib import import_module
from traceback import walk_stack

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import spending
from dpalgos.release.transcript import Transcript
from tests.contract.forms import EVERY, IDS, answered, keywords

HEADER = ["quantity", "sensitivity", "share", "made in", "forms"]
PRIVATE = [(estimator, calibration) for estimator, calibration in EVERY if estimator.private]
each_form = pytest.mark.parametrize(("estimator", "calibration"), PRIVATE, **IDS)


def cells(line):
    return re.split(r" {2,}", line.strip())


def table_of(text):
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if cells(line) == HEADER]
    if not starts:
        return []
    rows = lines[starts[0] + 1 :]
    end = next((number for number, line in enumerate(rows) if not line.strip()), len(rows))
    return [cells(line) for line in rows[:end]]


def applies(words, form, calibration):
    def named(one):
        return one == "all" or one == calibration or (one not in ("tight", "paper") and one in form)

    def clause(text):
        excluded = text.startswith("not ")
        return any(map(named, text.removeprefix("not ").split(" or "))) != excluded

    return all(map(clause, words.split(" and ")))


def rows_of(table, form, calibration):
    """Return the rows of a form, and in the place of ``those of MODULE`` the rows of that module's table.

    What these share is their row's share, as they share their own.
    """
    assert all(len(row) == len(HEADER) for row in table), table
    rows = []
    for row in (row for row in table if applies(row[4], form, calibration)):
        module = row[0].removeprefix("those of ")
        if module == row[0]:
            rows.append(row)
            continue
        inner = table_of(inspect.cleandoc(import_module(f"dpalgos.{module}").__doc__))
        inner = rows_of(inner, form, calibration)
        whole = sum(float(share) for _, _, share, _, _ in inner)
        scale = float(row[2]) / whole if is_number(row[2]) else np.nan
        rows += [[*one[:2], f"{scale * float(one[2]):.5f}", *one[3:]] for one in inner]
    return rows


def is_number(share):
    return bool(re.fullmatch(r"1|0?\.\d+", share))


class Traced(Transcript):
    """Keeps which functions a release was made in."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.functions = {}

    def record(self, *events):
        names = {frame.f_code.co_name for frame, _ in walk_stack(None)}
        for event in events:
            self.functions.setdefault(label(event), set()).update(names)
        super().record(*events)


def label(event):
    return re.sub(r"round \d+$", "round t", event.label)


BOUNDS = {"B_x": "covariate_bound", "B": "covariate_bound", "B_y": "response_bound"}
FORMULA = re.compile(r"(√|\d+|\bn\b|\bd\b|B_x|B_y|\bB\b|²|[-+/(), ]|−|max|min)+")


def evaluated(cell, n, d, given):
    """Return the value of a sensitivity, or None where it names what only a run knows."""
    one, split, others = cell.partition("; d > 1: ")
    text = (others if split and d > 1 else one).removesuffix(" (selections)")
    lacks = any(each in text and bound not in given for each, bound in BOUNDS.items())
    if lacks or not FORMULA.fullmatch(text):
        return None
    text = re.sub(r"√(max|min)?(\(.*?\)|\w+)", r"sqrt(\1\2)", text).replace("²", "**2").replace("−", "-")
    text = re.sub(r"(?<=[\w)])\s*(?=\b(B|d|B_x|B_y|sqrt)\b)(?<!max\()(?<!sqrt\()(?<!min\()", "*", text)
    known = {each: given[bound] for each, bound in BOUNDS.items() if bound in given}
    known |= {"sqrt": np.sqrt, "max": max, "min": min, "n": n, "d": d}
    return eval(text, {"__builtins__": {}}, known)


def test_sensitivities_are_read_as_formulas():
    known = {"√2/n": 2**0.5 / 100, "√min(d + 1, 3)/n": 3**0.5 / 100, "min(d + 1, 3)/n": 0.03, "2 B_x B_y": 12}
    known |= {"√2 B_x²": 2**0.5 * 4, "1 (selections)": 1, "√2 d/n": 2**0.5 * 0.05, "√(d + 1)": 6**0.5}
    known |= {"2C/n": None, "of a loss": None, "√10": 10**0.5}
    bounds = {"covariate_bound": 2.0, "response_bound": 3.0}
    assert {cell: evaluated(cell, 100, 5, bounds) for cell in known} == pytest.approx(known)


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


@each_form
def test_the_table_of_releases_is_what_a_form_releases(estimator, calibration, monkeypatch):
    table = table_of(inspect.cleandoc(sys.modules[estimator.function.__module__].__doc__))
    run = released(estimator, calibration, monkeypatch)
    rows = rows_of(table, estimator.form, calibration)
    assert sorted(row[0] for row in rows) == sorted({label(event) for event in run.events})
    for quantity, _, share, function, _ in rows:
        assert function in run.functions.get(quantity, {function}), f"{quantity} is not made in {function}"
        if calibration == "tight" and is_number(share):
            own = [event for event in run.events if label(event) == quantity]
            if any(hasattr(event, "sampling_rate") for event in own):
                continue
            part = spending(own).rho / spending(run.events).rho
            assert part == pytest.approx(float(share), abs=6e-4), quantity


TIGHT = [each for each in PRIVATE if each[1] == "tight"]


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize(("estimator", "calibration"), TIGHT, **IDS)
def test_the_table_states_the_sensitivities_of_the_events(estimator, calibration, d, monkeypatch):
    table = table_of(inspect.cleandoc(sys.modules[estimator.function.__module__].__doc__))
    given, n = keywords(estimator, calibration), 100 if estimator.unit_of_privacy == "user" else 200
    rows, covariates = rows_of(table, estimator.form, calibration), d - ("offset_bounds" in given)
    values = {row[0]: evaluated(row[1], n, covariates, given) for row in rows}
    if all(value is None for value in values.values()):
        pytest.skip("follow from what a run releases")
    try:
        run = released(estimator, calibration, monkeypatch, d)
    except dpalgos.InputError as error:
        pytest.skip(f"another number of columns is refused: {error}")
    for event in run.events:
        stated = values.get(label(event))
        charged = getattr(event, "l2_sensitivity", getattr(event, "sensitivity", None))
        if stated is not None and charged is not None:
            each = stated if isinstance(stated, tuple) else (stated,)  # "1, √d": of several releases
            assert any(np.max(charged) == pytest.approx(one, rel=1e-6) for one in each), label(event)
