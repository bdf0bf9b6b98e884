"""The SNP study: its panels and budgets, errors per SNP, and what its page says of panels."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.prepare.genotype_groups import GroupDifference
from reports.cells import cells_of
from reports.exhibits import genome
from reports.exhibits.group_panels import draw
from reports.page import Axis, StudyPage
from reports.ranking import headline_of
from reports.results import summarize, validate_results
from tasks.report.build_page import _limit_guides, _without_signal
from tasks.run.compute import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem


def groups(n_people, shift, d=12):
    rng = np.random.default_rng(5)
    first = rng.binomial(2, 0.5 + shift, (n_people, d))
    second = rng.binomial(2, 0.5, (n_people, d))
    snps = {"name": [f"rs{j}" for j in range(d)], "chromosome": ["1"] * d}
    return GroupDifference(
        X=np.concatenate([2.0 * (first - 1), -2.0 * (second - 1)]),
        sizes=(n_people, n_people),
        target=first.mean(axis=0) - second.mean(axis=0),
        snps=pd.DataFrame({**snps, "position": range(d), "allele_1": "A", "allele_2": "C"}),
        panel=np.zeros((0, d)),
        panel_labels=np.zeros(0, dtype=int),
    )


SETTINGS = {"dataset": "snp_hapmap3", "n_snps": 12, "s": 3, "selection": "public_panel", "unit": "person"}
PROBLEM = made_problem("group_differences", **SETTINGS)


@pytest.fixture(scope="module")
def results():
    """Two panels, of which one has a signal, at two sizes and ε = 1."""
    parts = []
    for panel, shift in (("differs", 0.3), ("is null", 0.0)):
        for n in (30, 150):
            same = {"n": n, "panel": panel}
            cells = [made_cell("zero", **same), made_cell("sample_mean", **same)]
            clipped = {"center": 0.0, "clip_norm": math.sqrt(24), "shrinkage": "james_stein"}
            cells.append(made_cell("clipped_mean", **same, **clipped))
            block = made_block(PROBLEM, *cells, **same, replicates=8, study="snp", seed=1)
            parts.append(compute_block(block, groups(200, shift)))
    return validate_results(pd.concat(parts))


def test_errors_are_root_mean_squares_per_snp(results):
    wide = results.pivot_table(index=["cell", "replicate"], columns="metric", values="value")
    np.testing.assert_allclose(wide["rms_error"], wide["l2_error"] / math.sqrt(12))
    assert set(results[results["metric"] == "chance"]["privacy_model"]) == {"none"}


def test_a_panel_without_signal_says_so_and_the_limits_are_lines(results):
    assert _without_signal(results) == ("is null",)
    assert _without_signal(results[results["panel"] == "differs"]) == ()
    page = StudyPage(**PAGE, without_signal=_without_signal(results))
    assert (page.panel_title("differs"), page.panel_title("is null")) == ("differs", "is null: no signal")
    lines = {(guide.label, guide.panel): guide.value for guide in _limit_guides(results)}
    expected = groups(200, 0.0).limits(3)
    assert lines["difference of two random groups", "is null"] == (expected["chance"],)
    assert lines["smallest error with s entries", "is null"] == (expected["sparse_floor"],)
    assert all(guide.shown for guide in _limit_guides(results))


PAGE = {
    "name": "snp",
    "title": "SNPs",
    "question": "",
    "estimators": tuple(map(dpalgos.get_estimator, ("zero", "sample_mean", "clipped_mean"))),
    "headline": {"epsilon": 1.0, "delta_rule": "0.001", "n": 150, "panel": "differs"},
    "axis": Axis("people", "n", "m"),
    "metric": "rms_error",
    "metric_label": "error",
}


def test_the_table_of_panels_is_recomputed_from_the_results(results):
    page = replace(StudyPage(**PAGE), without_signal=_without_signal(results))
    cells = cells_of(summarize(results), page)
    (section,) = draw(page, cells, headline_of(cells, page), {})
    rows = {row[0]: row for row in section.facts["table"].rows}
    assert list(rows) == ["differs", "is null: no signal"]
    errors = results[results["metric"] == "rms_error"]
    for panel, row in zip(("differs", "is null"), rows.values(), strict=True):
        here = errors[errors["panel"] == panel]
        zero = here[here["estimator"] == "zero"]["value"].mean()
        clearly = {}
        for n, of_size in here[here["estimator"] == "clipped_mean"].groupby("n"):
            mean, se = of_size["value"].mean(), of_size["value"].std() / math.sqrt(8)
            clearly[n] = mean + 2 * se < zero
        assert float(row[2]) == pytest.approx(zero, rel=0.01)
        assert float(row[-1].text) == pytest.approx(mean, rel=0.01)
        assert (row[-1].kind == "best") is bool(clearly[150])
        text = section.facts["text"]
        assert (f"“{row[0]}” from m = {30 if clearly[30] else 150} on, at ε = 1" in text) is bool(
            clearly[150]
        )
        assert (f"None is clearly better at the largest size of panel “{row[0]}”" in text) is not bool(
            clearly[150]
        )
    assert rows["differs"][-1].kind == "best"


def test_the_map_of_the_genome_draws_every_snp(results, monkeypatch):
    page = StudyPage(**PAGE)
    cells = cells_of(summarize(results), page)
    head = headline_of(cells, page)
    cell = next(row.cell for row in head.at_x if row.role == "private")
    drawn = []
    monkeypatch.setattr(genome, "draw_chart", lambda chart, *_: drawn.append(chart))
    values = np.arange(900.0)
    content = {"chromosomes": ["1"] * 900, "positions": list(range(900)), "truth": values, "s": 20}
    (section,) = genome.draw(page, cells, head, {**content, "estimates": {cell: values * (values > 880)}})
    assert "each of 900 SNPs" in section.facts["text"]
    for strip in drawn[0]["vconcat"]:
        assert [len(layer["data"]["values"]) for layer in strip["layer"][1:3]] == [900, 900]
