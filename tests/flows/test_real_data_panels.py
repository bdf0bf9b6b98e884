"""A panel that needs the real data is left out where they cannot be had, and the report says so."""

from unittest.mock import Mock

import pytest

from data.fetch.raw_files import RawFile
from data.store.folders import PROJECT_ROOT
from flows import study as flow
from flows.studies.find_study import find_study
from tasks.faults import SpecError

DATASET, PANEL = "snp_gse106818", "average and low iq"


@pytest.fixture
def run(tmp_path, home, monkeypatch, capsys):
    made = flow._Run(find_study("snp"), tmp_path, None, None)
    raw = RawFile(DATASET, "", "", "", "", "stand-in", ("no address answered",))
    monkeypatch.setattr(flow, "fetch", Mock(return_value=raw))
    monkeypatch.setattr(flow, "parquet", None)  # no stand-in is made up
    return made


def test_it_does_not_run_on_a_stand_in(run, capsys):
    assert run.table(DATASET, True, "smoke") is None
    (sentence,) = run.not_run.values()
    assert sentence.startswith(f"Panel “{PANEL}” did not run, since {DATASET} cannot be had here: ")
    assert PANEL not in {panel.name for panel in run.spec.panels}
    assert len(run.spec.panels) == len(find_study("snp").panels) - 1
    assert sentence in capsys.readouterr().err
    assert run.n_task_runs == 1  # `parquet` was not called: nobody waits for its record


def test_other_panels_keep_their_stand_in():
    spec = find_study("snp")
    assert spec.panels_without_stand_in(DATASET) == (PANEL,)
    assert spec.panels_without_stand_in("snp_hapmap3") == ()


def test_the_headline_always_runs(tmp_path):
    text = (PROJECT_ROOT / "flows" / "studies" / "snp.toml").read_text()
    (tmp_path / "snp.toml").write_text(text.replace('panel = "hapmap"', f'panel = "{PANEL}"'))
    with pytest.raises(SpecError, match=r"headline\.panel must be one that always runs"):
        find_study(str(tmp_path / "snp.toml"))
