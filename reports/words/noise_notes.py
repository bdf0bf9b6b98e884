"""Comparison of the noise printed in a paper with the least noise that proves the same guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.analysis.series import Series
from reports.numbers import num, setting, span, times, words


@dataclass(frozen=True)
class NoiseComparison:
    """Printed against tight noise, one estimator, one size; NaN where a side gave no answer."""

    name: str
    estimator: str
    slot: int
    printed: float
    tight: float
    certified: float

    @property
    def ratio(self) -> float:
        """How many times larger the error is with the printed noise."""
        return self.printed / self.tight if self.tight > 0 else math.nan


def noise_comparisons(series: Sequence[Series], x: float) -> tuple[NoiseComparison, ...]:
    """Compare the printed noise with the tight one at one size, estimator by estimator."""
    tight = {(s.info.name, s.form): s.mean_at(x) for s in series if s.calibration == "tight"}
    out = []
    for s in series:
        point = s.at(x)
        if s.calibration == "paper" and point is not None and point.answered:
            other = tight.get((s.info.name, s.form), math.nan)
            out.append(
                NoiseComparison(s.name, s.info.label, s.info.order, point.mean, other, point.certified)
            )
    return tuple(out)


def noise_sentence(rows: Sequence[NoiseComparison], asked: float) -> str:
    """Describe the effect of the printed noise in one or two sentences; empty without such runs."""
    proved = [r for r in rows if math.isfinite(r.certified)]
    if not rows:
        return ""
    if not proved:
        return "No ε could be certified for the noise as printed."
    too_small = [r for r in proved if r.certified > asked * 1.001]
    too_large = [r for r in proved if r.certified < asked / 1.25]
    parts = []
    if too_small:
        listed = words(f"{r.name} (proves only ε = {num(r.certified)})" for r in too_small)
        parts.append(f"Too small for the ε = {setting(asked)} that was asked: the printed noise of {listed}.")
    if too_large:
        proofs = span([r.certified for r in too_large])
        which = (
            "every estimator"
            if len(too_large) == len(rows)
            else words(dict.fromkeys(r.estimator for r in too_large))
        )
        parts.append(
            f"The noise as printed is larger than the guarantee needs for {which}: it proves ε = {proofs}."
        )
    if not parts:
        parts.append(f"The noise as printed proves ε = {span([r.certified for r in proved])}.")
    compared = [r for r in rows if math.isfinite(r.ratio)]
    if compared:
        top = max(compared, key=lambda r: r.ratio)
        effect = f"{times(top.ratio)} times more" if top.ratio > 1.05 else "hardly any difference"
        parts.append(
            f"It matters most for {top.name}: an error of {num(top.printed)} as printed, {num(top.tight)} "
            f"with the least noise that can be proved enough ({effect})."
        )
    return " ".join(parts)
