from tasks.report.artifact import summary_markdown

PAGE = """# A study

Words.

![A chart](figures/main.png)

| Estimator | error |
| :-- | --: |
| OLS | 0.1 |

| another | table |
"""


def test_the_server_shows_the_headline_the_first_table_and_where_the_whole_report_is(tmp_path):
    (tmp_path / "report.md").write_text(PAGE)
    report = tmp_path / "report.html"
    text = summary_markdown(report, "It costs little.", "http://127.0.0.1:4200/reports/housing")
    whole = "[The whole report](http://127.0.0.1:4200/reports/housing/report.html)"
    table = "| Estimator | error |\n| :-- | --: |\n| OLS | 0.1 |"
    assert text == f"It costs little.\n\n{whole}\n\n{table}\n"
    assert f"`{report}`" in summary_markdown(report, "It costs little.")
