"""What every kind of problem must keep, tried on the smallest panel of a shipped study that has the kind."""

import json
import os
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.datasets import get_dataset
from data.fetch.raw import RawFile
from data.results.table import validate_results
from flows.studies.find_study import find_study, study_names
from tasks.cells import Replicates
from tasks.problems.kinds import kinds
from tasks.problems.problem import ALL, DatasetSource, Draw
from tasks.run.compute import compute_block
from tasks.run.datasets import fetch, parquet
from tasks.study.expand import Block
from tests.builders import made_up


@cache
def _panels():
    """Return kind and measure → (the smallest problem, its size, two cells) among all studies."""
    found = {}
    for name in study_names():
        spec = find_study(name)
        for block in spec.blocks("smoke", replicates=3, seed=1):
            problem, n = block.problem, block.replicates.n
            known = found.get(_name(problem))
            if known is None or problem.cost(n).elements < known[0].cost(known[1]).elements:
                found[_name(problem)] = (problem, n, block.cells[:: max(1, len(block.cells) - 1)])
    return found


def _name(problem):
    return f"{problem.kind} {problem.measure}".strip()


_NAMES = sorted([*kinds(), *(f"{name} intervals" for name, kind in kinds().items() if kind.intervals)])


@cache
def _table(source):
    raw = fetch(source, offline=True)
    if raw.is_stand_in and source.startswith("wang2018_"):
        table = made_up(get_dataset(source), get_dataset(source).n_rows, np.random.default_rng(0)).to_numpy()
        file = Path(os.environ["DPCOST_HOME"]) / f"{source}.npz"
        np.savez(file, X=table[:, :-1], y=table[:, -1])
        raw = RawFile(source, str(file), "0" * 64, "", "npz", "mirror")
    return parquet(raw, stand_in_rows=1000)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    _table.cache_clear()
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(params=_NAMES, scope="module")
def case(request, tables):
    if request.param not in _panels():
        pytest.skip("no shipped study has this kind; the tests of an analyst's own tables run it")
    problem, n, _ = _panels()[request.param]
    if not isinstance(problem, DatasetSource):
        yield problem, n, None
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCOST_HOME", str(tables))
        patch.delenv("DPCOST_DATA_MIRROR", raising=False)
        content, suffix = problem.prepare(_table(problem.source)), ".npz"
        design = tables / f"{request.param}{suffix}"
        design.write_bytes(content)
        yield problem, n, problem.load(design)


@pytest.fixture(scope="module")
def block(case):
    problem, n, _ = case
    about = {"data_source": "stand-in" if isinstance(problem, DatasetSource) else "simulated"}
    about |= {"work": 1, "n_bytes": 0, "cells": _panels()[_name(problem)][2]}
    return Block(replicates=_replicates(n), problem=problem, **about)


def _replicates(n, *, first=0, count=3, seed=1):
    return Replicates(study="contract", panel="one", n=n, first=first, count=count, of=3, seed=seed)


def _data(problem, replicates, prepared):
    found = {}
    for draw in problem.draws(replicates, prepared):
        used = draw.sample.X, draw.sample.y, draw.sample.row_mask
        found[draw.first] = [np.asarray(part) for part in used if part is not None]
    return found


def _content(data):
    return {first: [(part.shape, part.tobytes()) for part in parts] for first, parts in data.items()}


def _in_order(parts):
    rows = np.column_stack(parts)
    return rows[np.lexsort(rows.T)]


def test_settings_survive_being_written(case):
    problem, _, _ = case
    assert type(problem).model_validate(problem.model_dump()) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem  # as on its way to a worker


def test_sizes_and_costs_are_whole_numbers(case):
    problem, n, _ = case
    sizes = problem.sizes(n)
    assert sizes["n"] == n
    assert set(sizes) <= {"n", "d", "s", "K"}
    assert all(isinstance(size, int) and size >= 1 for size in sizes.values())
    cost = problem.cost(n)
    assert cost.elements >= 1
    assert cost.n_bytes >= 0
    assert cost.batch >= 0
    assert 1 <= (cost.smoke_n or n) <= n


def test_draws_cover_each_replicate_once_and_in_order(case):
    problem, n, prepared = case
    draws = problem.draws(_replicates(n), prepared)
    assert [draw.first + i for draw in draws for i in range(draw.replicates)] == [0, 1, 2]


def test_the_seed_decides_the_data(case):
    problem, n, prepared = case
    once, again, other = (_content(_data(problem, _replicates(n, seed=s), prepared)) for s in (1, 1, 2))
    assert once == again != other


def test_a_replicate_alone_is_the_same_as_among_others(case):
    problem, n, prepared = case
    if problem.cost(n).batch == ALL:
        pytest.skip("all replicates of this kind run in one block")
    whole = _data(problem, _replicates(n), prepared)
    (alone,) = _data(problem, _replicates(n, first=2, count=1), prepared).values()
    if 2 in whole:
        assert _content({2: whole[2]}) == _content({2: alone})
    else:  # one draw holds all replicates, which differ in the rows that they use, in any order
        (together,) = whole.values()
        assert np.array_equal(_in_order([*together[:-1], together[-1][:, 2:]]), _in_order(alone))


def test_a_setting_that_is_misspelled_is_refused(case):
    problem, _, _ = case
    with pytest.raises(ValueError, match="misspelled"):
        type(problem).model_validate(problem.model_dump() | {"misspelled": 1})


def test_a_block_is_a_valid_table_and_the_same_again(case, block):
    prepared = case[2]
    rows = compute_block(block, prepared)
    validate_results(rows)
    assert set(rows["status"]) == {"ok"}
    assert list(rows["cell"].unique()) == [cell.key for cell in block.cells]
    assert (rows.groupby(["cell", "metric"])["replicate"].nunique() == 3).all()
    pd.testing.assert_frame_equal(compute_block(block, prepared), rows)
    plain = block.described()
    assert json.loads(json.dumps(plain)) == plain


def test_all_cells_of_a_block_get_the_same_data(case, block, monkeypatch):
    seen, answer = {}, Draw.answer

    def watched(draw, cell, replicates):
        mask = draw.sample.row_mask
        content = np.asarray(draw.sample.X) if mask is None else mask
        seen.setdefault(cell.key, []).append(content.tobytes())
        return answer(draw, cell, replicates)

    monkeypatch.setattr(Draw, "answer", watched)
    compute_block(block, case[2])
    first, *others = seen.values()
    assert all(other == first for other in others)
