"""The spread of users on a map, and its effect on a guarantee for equal users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.series import View
from reports.table import PageTable, Section
from reports.writing import num, render_sentence


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return a table of spreads, as they are and with rows dealt at random, and a sentence."""
    rows = content["rows"]
    n_users, degrees = content["n_users"], content["degrees"]
    text = render_sentence("user_spread", n_users=n_users, degrees=degrees, first=rows[0], last=rows[-1])
    table = tuple((str(m), num(apart), num(dealt), num(apart / dealt)) for m, apart, dealt in rows)
    columns = ("rows of a user, m", "spread of users' means", "rows dealt at random", "ratio")
    heading = "Users who live next to each other"
    return (Section(heading, text, table=PageTable(columns, table, heading, 0)),)
