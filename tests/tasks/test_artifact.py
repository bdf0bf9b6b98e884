"""The report as shown on the server's pages, where its other files are not in the same folder."""

import base64

from tasks.report import artifact
from tasks.report.artifact import standalone_markdown

REPORT = """# A study

![Error against size](figures/main.png)

![Certified ε](figures/certified.png)

See [every repetition](results.parquet), [above](#top) and [the paper](https://example.org/1).
"""


def report(folder):
    (folder / "figures").mkdir()
    (folder / "figures" / "main.png").write_bytes(b"main figure")
    (folder / "figures" / "certified.png").write_bytes(b"another one, larger than the first")
    (folder / "report.md").write_text(REPORT)
    return folder / "report.html"


def test_figures_are_inside_and_links_lead_somewhere(tmp_path):
    text = standalone_markdown(report(tmp_path))
    assert f"![Error against size](data:image/png;base64,{base64.b64encode(b'main figure').decode()})" in text
    assert "](figures/" not in text
    assert "See every repetition, [above](#top) and [the paper](https://example.org/1)." in text
    assert "file:" not in text
    assert f"`{tmp_path / 'report.html'}`" in text


def test_figures_beyond_the_limit_leave_their_description(tmp_path, monkeypatch):
    monkeypatch.setattr(artifact, "MAX_BYTES", 20)
    text = standalone_markdown(report(tmp_path))
    assert "![Error against size](data:" in text
    assert "\n*Certified ε*\n" in text


def test_where_a_server_shows_the_report_its_links_lead_there(tmp_path):
    text = standalone_markdown(report(tmp_path), "http://127.0.0.1:4200/reports/housing")
    assert text.startswith("[The whole report](http://127.0.0.1:4200/reports/housing/report.html)\n")
    assert "[every repetition](http://127.0.0.1:4200/reports/housing/results.parquet)" in text
    assert "[above](#top)" in text
    assert str(tmp_path) not in text
