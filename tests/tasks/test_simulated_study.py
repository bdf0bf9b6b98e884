"""A study on simulated data from its file to its report, task by task."""

import pandas as pd

from flows.studies.find_study import find_study
from tests.tasks.blocks import small_means, written_report


def test_the_report_speaks_of_simulated_data(tmp_path, home):
    study = find_study(str(small_means(tmp_path)))
    written_report(study, tmp_path, replicates=3)
    rows = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert set(rows["data_source"]) == {"simulated"}
    assert set(rows["dataset"]) == {"gaussian_mean"}
    assert set(rows.loc[rows["panel"] == "high-dimensional", "s"]) == {2}
    told = [study.size_label, "simulated, anew in every repetition", "high-dimensional"]
    told += [panel.about for panel in study.panels] + [each.value for each in study.assumptions]
    for name in ("report.md", "report.html"):
        text = (tmp_path / "out" / name).read_text().partition("<script")[0]
        text = text.replace("\N{NO-BREAK SPACE}", " ")
        assert [said for said in told if said not in text] == []
        unwanted = ("Rows:", "dropped or repaired", "preparation", "δ·m", "m = ", "Deleting", "License")
        assert [unsaid for unsaid in unwanted if unsaid in text] == []
    report = (tmp_path / "out" / "report.md").read_text()
    assert "n = 20,000, the best private" in report
    assert "Theory (the paper's rate (constant unknown, drawn with 1)) draws its line at" in report
    # An estimator of one panel is not shown in another.
    first_table = report.partition("## Which estimator")[2].partition("### ")[0]
    assert "Private mean" in first_table
    assert "Private sparse mean" not in first_table
    assert "Thresholded sample mean" not in first_table
