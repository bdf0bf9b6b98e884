"""An analysis plan: questions about one dataset, and one total (ε, δ) that is split by their targets."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpalgos.errors import InputError
from dpalgos.protocol.frames import PlanFrames
from dpalgos.protocol.questions import PlanTable, QuestionSet, faults_of, question_of


@dataclass(frozen=True, kw_only=True)
class AnalysisPlan(QuestionSet):
    """Questions about one dataset, and the (ε, δ) of all their releases together.

    Examples
    --------
    >>> text = '''
    ... [plan]
    ... epsilon = 2.0
    ... delta = 1e-6
    ... [[question]]
    ... name = "mean age"
    ... mean = "age"
    ... precision = 0.5
    ... '''
    >>> plan = AnalysisPlan.from_toml(text, n_rows=5000, bounds={"age": (18, 90)})
    >>> list(plan.forecast()["question"])
    ['mean age']
    """

    tables: tuple[PlanTable, ...] = ()
    dataset: str = ""
    data: str = ""
    study: str = ""
    n_rows: int = 0
    declared: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_toml(cls, text: str | Mapping[str, Any], *, n_rows: int = 0, **declared: Any) -> AnalysisPlan:
        """Read a plan from the text of a TOML file, or from its content as a dictionary.

        Parameters
        ----------
        text : str or mapping
        n_rows : int, optional
            The public number of rows; :meth:`forecast` and :meth:`release` need it.
        **declared
            ``bounds``, ``levels``, ``center`` and ``scale`` of columns, as of `dpalgos.formula.ols`.

        Raises
        ------
        InputError
            All that is wrong in the plan.
        """
        try:
            content = tomllib.loads(text) if isinstance(text, str) else text
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"the plan is not TOML: {error}; correct it there") from None
        if faults := list(faults_of(content)):
            raise InputError("; ".join(faults))
        tables = (
            PlanTable(out=each["out"], columns=tuple(each["columns"])) for each in content.get("table", ())
        )
        return cls(
            **content["plan"],
            questions=tuple(map(question_of, content["question"])),
            tables=tuple(tables),
            n_rows=n_rows,
            declared=declared,
        )

    def forecast(self) -> Any:
        """Return a data frame with the ε of each question and the half-width of each term, without data."""
        return self._frames.forecast()

    def release(self, rows: Any, *, random_state: Any = None) -> dict[str, Any]:
        """Release all questions from a frame, and return their results by name.

        One :class:`dpalgos.Budget` counts them. No result is kept, and a second call spends again: publish
        with ``dpcost protocol release``.
        """
        return self._frames.release(rows, random_state)

    @cached_property
    def _frames(self) -> PlanFrames:
        if not self.n_rows:
            raise InputError("n_rows must be the public number of rows, got none; pass it to from_toml")
        return PlanFrames(plan=self, n_rows=self.n_rows, declared=self.declared)
