"""A panel that needs the real data is left out where they cannot be had, and the report says so."""

import pytest

from data.fetch.raw import RawFile
from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
from tasks.errors import SpecError
from tasks.run.tables import bring
from tasks.run_options import RunOptions

DATASET, PANEL = "snp_gse106818", "average and low iq"


def test_it_does_not_run_on_a_stand_in():
    spec = find_study("snp").model_copy(update={"panels": (find_study("snp").panel(PANEL),)})
    missing = RawFile(DATASET, "", "", "", "", "stand-in", ("no address answered",))
    options = RunOptions(offline=True)
    # No table is made of a stand-in.
    brought = {DATASET: bring(spec, DATASET, options, fetch=lambda *_: missing, parquet=None)}
    left, tables = spec.on(brought)
    assert (tables, left.panels) == ({}, ())
    assert list(left.not_run) == [PANEL]
    assert "no address answered" in left.not_run[PANEL]


def test_other_panels_keep_their_stand_in():
    spec = find_study("snp")
    assert spec.panels_without_stand_in(DATASET) == (PANEL,)
    assert spec.panels_without_stand_in("snp_hapmap3") == ()


def test_the_headline_always_runs(tmp_path):
    text = (PROJECT_ROOT / "flows" / "studies" / "snp.toml").read_text()
    (tmp_path / "snp.toml").write_text(text.replace('panel = "hapmap"', f'panel = "{PANEL}"'))
    with pytest.raises(SpecError, match=r"headline\.panel must"):
        find_study(str(tmp_path / "snp.toml"))
