"""Rows that are pieces of the follow-up of persons within public periods."""

from dataclasses import dataclass, replace

from dpalgos.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class PiecesOfRows:
    """Of which period each row of a sample is a piece.

    Attributes
    ----------
    period : (m,) array
    part : (m,) array
        How much of its period the row is at risk; 0 if the row is left out.
    lengths : (K,) array
        The public lengths of periods, which sum to 1.
    time_columns : (B, d) array
        What one unit of each function of operational time adds to the columns.
    """

    period: IntArray
    part: FloatArray
    lengths: FloatArray
    time_columns: FloatArray

    def taken(self, rows: IntArray) -> "PiecesOfRows":
        """Return some of the rows."""
        return replace(self, period=self.period[rows], part=self.part[rows])
