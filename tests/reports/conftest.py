"""One rendering per session: drawing is what costs time."""

from dataclasses import replace

import pytest

from data.columns import Column
from data.datasets import get_dataset
from reports.page import Axis, DataCard
from reports.pages.study import render_study
from tests.reports.synthetic import replaced, synthetic_page, synthetic_results

HOSTILE = "<script>alert('x')</script> & \"quoted\" | [link](javascript:1)"


WORDS = dict.fromkeys(("title", "description", "privacy_unit", "license", "citation"), HOSTILE)
COLUMNS = (Column("age", "int64", "years", 0, 60, HOSTILE),)
READ = {"data_source": "stand-in", "origin": HOSTILE, "reasons": [HOSTILE], "rows_read": 1000, "n_rows": 990}
READ |= {"source_url": "javascript:alert(1)", "source_sha256": "ab" * 32, "sha256": "cd" * 32}
READ |= {"repairs": [{"reason": HOSTILE, "count": 10}]}
TABLE = replace(get_dataset("housing"), name="some_table", columns=COLUMNS, **WORDS)
CARD = DataCard(TABLE, READ, checked=False)


@pytest.fixture(scope="session")
def results():
    return synthetic_results(replicates=5)


@pytest.fixture(scope="session")
def page(results):
    return synthetic_page(results)


@pytest.fixture(scope="session")
def report(results, page):
    return render_study(results, page)


@pytest.fixture(scope="session")
def standin_results():
    rows = synthetic_results(replicates=1, data_source="stand-in", sizes=(100, 20600))
    return rows[rows["epsilon"].isin([0.5, 2.0]) | rows["epsilon"].isna()]


@pytest.fixture(scope="session")
def standin_page(standin_results):
    """A stand-in page on which every free text is hostile."""
    page = synthetic_page(standin_results)
    estimators = tuple(replace(e, title=f"{e.title} {HOSTILE}", summary=HOSTILE) for e in page.estimators)
    page = replaced(page, trust={"measured": HOSTILE, "notes": (HOSTILE,)}, risk={"text": HOSTILE})
    texts = {"title": HOSTILE, "question": HOSTILE, "metric_label": "error <i>", "axis": Axis("m <i>")}
    manifest = page.manifest | dict.fromkeys((HOSTILE, "command", "machine"), HOSTILE)
    return replace(page, estimators=estimators, data_cards=(CARD,), manifest=manifest, **texts)


@pytest.fixture(scope="session")
def standin_report(standin_results, standin_page):
    return render_study(standin_results, standin_page)
