"""Lines, names, menus and looks of charts."""

import re

import vl_convert

from reports import palette
from reports.charts.drawing import specification
from reports.charts.lines import Axes, Line, line_chart


def texts(svg):
    return re.findall(r">([^<>]+)</text>", svg)


def test_every_line_is_named_at_its_end_or_in_the_legend():
    look = palette.look("private", 0)
    lines = [Line(name, [(1.0, 1.0), (2.0, end)], look) for name, end in (("a", 0.1), ("b", 0.105))]
    for y_log in (True, False):
        svg = vl_convert.vegalite_to_svg(specification(line_chart(lines, Axes("", "", [1, 2], y_log=y_log))))
        assert sorted(text for text in texts(svg) if text in "ab") == ["a", "b"]
