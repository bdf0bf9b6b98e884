"""The table of coefficients for publication."""

import io
import math

import pytest

from reports.charts.drawing import draw_chart
from reports.pages.coefficient_table import FORMATS, ResultColumn, render_coefficients
from reports.render import PageTable
from reports.writing import num_in


def row(term, estimate, low=None, high=None, **more):
    known = low is not None
    note = "" if known and (low > 0 or high < 0) else "sign not known" if known else "no interval"
    error = (high - low) / 3.92 if known else None
    return {
        **{"term": term, "estimate": estimate, "std_error": error, "ci_low": low, "ci_high": high},
        **{"statistic": None, "p_value": 0.0004 if known else None, "note": note, **more},
    }


ROWS = [row("age", 20.0, 19.0, 21.0), row("region=s_1", -3.0, -9.0, 3.0), row("at the centers", 100.0)]
NOTE = "Differentially private for each row at ε = 1."
LINEAR = ResultColumn(title="costs", rows=ROWS, level=0.95, footer={"rows": "5,000", "ε": "1"}, notes=[NOTE])
RATIOS = [row("age", 0.7, 0.1, 1.3, odds_ratio=2.01, odds_ratio_low=1.1, odds_ratio_high=3.7)]
LOGISTIC = ResultColumn(
    title="sick & tired", rows=RATIOS, level=0.95, footer={"rows": "90"}, notes=["Private."]
)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("models", [[LINEAR], [LOGISTIC], [LINEAR, LOGISTIC], [LINEAR, LINEAR]])
def test_every_format_holds_terms_numbers_and_the_footnote(form, models):
    content = render_coefficients(models, form)
    if form == "docx":
        from docx import Document

        document = Document(io.BytesIO(content))
        text = "\n".join(cell.text for line in document.tables[0].rows for cell in line.cells)
        text += "\n".join(each.text for each in document.paragraphs)
    else:
        text = content.decode()
    assert "age" in text
    for model in models:
        shown = "2.01" if model is LOGISTIC else "20.0"
        assert shown in text
        if form != "csv":
            assert model.notes[0].split(" at")[0] in text


def test_models_side_by_side_have_each_note_once():
    notes = {"a": ["Private.", "Rows are dropped."], "b": ["Private.", "Rows are dropped.", "Nested."]}
    models = [
        ResultColumn(**{**vars(LINEAR), "title": title, "notes": each}) for title, each in notes.items()
    ]
    text = render_coefficients(models, "txt").decode()
    assert [text.count(each) for each in ("Private.", "Rows are dropped.", "b: Nested.")] == [1, 1, 1]


def test_latex_is_escaped():
    odd = ResultColumn(**{**vars(LINEAR), "rows": [row("[cm]", 3e-9), row("age=>65|x", 1.0)]})
    tex = render_coefficients([LINEAR, LOGISTIC, odd], "tex").decode()
    assert not [each for each in (r"sick \\& tired", "\n[cm]", "⁻", "sick & tired") if each in tex]
    wanted = r"sick \& tired", r"region=s\_1", r"\toprule", "10$^{-}$", r"age=$>$65\textbar{}x"
    assert not [each for each in wanted if each not in tex]


NUMBERS = [(1.01015, 1.00934, 1.01096, "1.0102"), (0.0352, 0.0341, 0.0363, "0.0352"), (1.5, 1.5, 1.5, "1.50")]
NUMBERS += [(2943.0, 2936.0, 3013.0, "2,943"), (-0.067, -0.0996, -0.034, "−0.067")]
NUMBERS += [(0.5, -math.inf, 1.0, "0.500")]
NUMBERS += [(123_456_789.0, 123_456_000.0, 123_457_000.0, "1.234568 × 10⁸")]


@pytest.mark.parametrize(("value", "low", "high", "written"), NUMBERS)
def test_a_number_is_written_with_two_digits_of_its_intervals_width(value, low, high, written):
    assert num_in(value, low, high) == written


def test_names_of_groups_with_braces_backslashes_and_control_characters_are_written_as_they_are():
    group = PageTable(["", "a{0}", "b\\c", "d\x1b"], [["n", "1", "2", "3"]], "t")
    model = ResultColumn(title="t", rows=[], level=None, footer={}, notes=["note"], by_group=group)
    text = render_coefficients([model], "tex").decode()
    assert r"& a\{0\} & b\textbackslash{}c & d\textbackslash{}x1b \\" in text
    assert "a{0}" in render_coefficients([model], "txt").decode()


def test_a_picture_can_be_drawn_of_names_with_control_characters():
    values, of_x = {"values": [{"a": "arm\x1b\u202e"}]}, {"x": {"field": "a", "type": "nominal"}}
    picture = draw_chart({"mark": "point", "data": values, "encoding": of_x}, "name\x1b", "about\x1b", "")
    assert picture.png
    assert b"\x1b" not in picture.svg
