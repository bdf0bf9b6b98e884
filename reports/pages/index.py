"""The index page: what privacy costs in every study, a row each."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

import pandas as pd

import dpalgos
from reports.page import seconds_of
from reports.render import SCRIPT, render_page

_SOURCES = {"real": "real data", "stand-in": "stand-in, not the real data", "simulated": "simulated data"}
_COLUMNS = ["panel", "data_source", "estimator"]


@dataclass(frozen=True, eq=False)
class Entry:
    """A study on the index page, from its manifest and its summary."""

    name: str
    manifest: Mapping[str, Any]
    summary: pd.DataFrame  # its `_COLUMNS`

    @classmethod
    def of(cls, name: str, manifest: Mapping[str, Any], summary: bytes) -> Entry:
        """Return the entry of a run's manifest and summary; raise `ValueError` if the summary is damaged."""
        table = pd.read_csv(io.BytesIO(summary), usecols=_COLUMNS, dtype=str, keep_default_na=False)
        return cls(name, manifest, table.drop_duplicates())

    @property
    def page(self) -> Mapping[str, Any]:
        """The part of the manifest that `render_study` wrote."""
        return cast("Mapping[str, Any]", self.manifest["page"])

    @cached_property
    def source(self) -> str:
        """The data source of the headline's panel, or of all panels if that one did not run."""
        at_headline = self.summary[self.summary["panel"] == self.page.get("panel", "")]
        rows = self.summary if at_headline.empty else at_headline
        return " and ".join(sorted(rows["data_source"].unique()))

    @property
    def datasets(self) -> list[str]:
        return [one["name"] for one in self.manifest.get("data", ())]

    @cached_property
    def estimators(self) -> list[str]:
        """The titles of the estimators that ran."""
        titles = _titles()
        return [titles.get(name, name) for name in sorted(self.summary["estimator"].unique())]

    @property
    def words(self) -> str:
        """The text that the search on the page looks at."""
        texts = (self.page["title"], self.page["headline"], self.name, *self.datasets, *self.estimators)
        return " ".join(texts).lower()

    @property
    def is_trial(self) -> bool:
        return bool(self.page.get("trial"))

    @property
    def is_compared(self) -> bool:
        return {"private", "zero"} <= set(self.page["errors"] or ()) and "warning" not in self.manifest

    @property
    def why_not_compared(self) -> str:
        """Why the study has no bar."""
        if "warning" in self.manifest:
            return "its data are not public"
        return str(self.page.get("not_compared") or "it does not measure errors")

    @property
    def cost(self) -> float:
        """The factor of the noise of privacy, or of noise and method together; infinite if unknown."""
        known = self.page.get("factor") if "warning" not in self.manifest else None
        return float(known[0]) if known else math.inf

    @property
    def may_be_none(self) -> bool:
        """Whether the noise of privacy cannot be distinguished from none."""
        return math.isfinite(self.cost) and not self.page["factor"][1] > 1

    @property
    def steps(self) -> list[tuple[str, float, float]]:
        """Each step of the private error: its name, beginning and length, in % of the error of zero."""
        errors, steps, before = self.page["errors"], list[tuple[str, float, float]](), 0.0
        for kind, name in (("without", "sampling"), ("method", "method"), ("private", "privacy")):
            if kind in errors:
                at = min(100 * errors[kind][0] / errors["zero"][0], 100)
                steps.append((name, before, at - before))
                before = at
        return steps


def _place(entry: Entry) -> tuple[bool, bool, float, str]:
    return entry.is_trial, not entry.is_compared, entry.cost, entry.name


def render_index(entries: Iterable[Entry]) -> dict[str, bytes]:
    """Return ``index.html``: a row per study, the cheapest privacy first."""
    ordered = sorted(entries, key=_place)
    page, _ = render_page(
        "pages/index.jinja",
        script=SCRIPT,
        entries=ordered,
        source_words=source_words,
        seconds_of=seconds_of,
    )
    return {"index.html": page}


@cache
def _titles() -> dict[str, str]:
    return {entry.name: entry.title for entry in dpalgos.catalog()}


def source_words(source: str) -> str:
    return _SOURCES.get(source, f"{source} data")
