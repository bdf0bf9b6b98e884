"""The spread of users on a map, and its effect on a guarantee for equal users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.analysis.series import View
from reports.charts.picture import ReportSection
from reports.numbers import num


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return a table of spreads, as they are and with rows dealt at random, and a sentence."""
    rows = content["rows"]
    first, last = rows[0], rows[-1]
    text = (
        f"{content['n_users']} users, cells of {num(content['degrees'])}° with enough rows. From {first[0]} "
        f"to {last[0]} rows a user the standard deviation of users' means falls from {num(first[1])} to "
        f"{num(last[1])} where they live, and from {num(first[2])} to {num(last[2])} if rows are dealt at "
        "random. Theory promises an error in proportion to the second, of users who are alike. Neighbors "
        "are not: a radius τ that covers the first buys little with more rows of a user, and one for users "
        "who are alike cuts off those who are not, which is a bias against less noise; the errors weigh it. "
        "Privacy is the same for any τ. Theorem 10 covers users who differ by 1/(mn) or so in total "
        "variation: nothing like these. Spreads are read from the data, without protection, for this page."
    )
    table = tuple((str(m), num(apart), num(dealt), num(apart / dealt)) for m, apart, dealt in rows)
    columns = ("rows of a user, m", "spread of users' means", "rows dealt at random", "ratio")
    return (
        ReportSection("Users who live next to each other", text, columns=columns, rows=table, n_labels=0),
    )
