"""A panel that needs the real data is left out where they cannot be had, and the report says so."""

from data.fetch.raw import RawFile
from flows.studies.find_study import find_study
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
