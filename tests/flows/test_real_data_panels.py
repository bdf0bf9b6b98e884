"""A panel that needs the real data is left out where they cannot be had, and the report says so."""

import pytest

from data.fetch.raw_files import RawFile
from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
from flows.studies.steps import bring_tables
from tasks.errors import SpecError

DATASET, PANEL = "snp_gse106818", "average and low iq"


def test_it_does_not_run_on_a_stand_in():
    called = []

    def call(task, dataset, *_, **__):
        called.append((task.__name__, dataset))
        return RawFile(dataset, "", "", "", "", "stand-in", ("no address answered",))

    spec = find_study("snp").model_copy(update={"panels": (find_study("snp").panel(PANEL),)})
    tables, left, not_run = bring_tables(spec, "standard", True, call)
    assert (tables, left.panels) == ({}, ())
    assert list(not_run) == [PANEL]
    assert "no address answered" in not_run[PANEL]
    assert called == [("fetch", DATASET)]  # and no table is made of a stand-in


def test_other_panels_keep_their_stand_in():
    spec = find_study("snp")
    assert spec.panels_without_stand_in(DATASET) == (PANEL,)
    assert spec.panels_without_stand_in("snp_hapmap3") == ()


def test_the_headline_always_runs(tmp_path):
    text = (PROJECT_ROOT / "flows" / "studies" / "snp.toml").read_text()
    (tmp_path / "snp.toml").write_text(text.replace('panel = "hapmap"', f'panel = "{PANEL}"'))
    with pytest.raises(SpecError, match=r"headline\.panel must"):
        find_study(str(tmp_path / "snp.toml"))
