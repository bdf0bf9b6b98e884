"""Rows that are pieces of the follow-up of persons within public periods."""

from dataclasses import dataclass, replace

from dpalgos.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class PiecesOfRows:
    """The periods of rows that are pieces of follow-up.

    Attributes
    ----------
    period : (m,) array
    part : (m,) array
        How much of its period the row is at risk; 0 if the row is left out.
    lengths : (K,) array
        The public lengths of periods, which sum to 1.
    time_columns : (B, d) array
        The effects of one unit of each function of operational time on the columns.
    is_late : (K,) array, optional
        Which periods have the later half of the events, by the life table.
    """

    period: IntArray
    part: FloatArray
    lengths: FloatArray
    time_columns: FloatArray
    is_late: BoolArray | None = None

    def taken(self, rows: BoolArray | IntArray) -> "PiecesOfRows":
        """Return some of the rows."""
        return replace(self, period=self.period[rows], part=self.part[rows])
