"""The printable page of one release, from its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.pages.text import render_html
from reports.writing import num


def render_release(record: Mapping[str, Any]) -> bytes:
    deployment, release = record["deployment"], record["release"]
    name = deployment["product"]["name"]
    return render_html(
        "release.html.jinja",
        title=f"Release from {name}",
        description=f"What was released from {name}, and what it cost",
        deployment=_fields(deployment),
        release=release,
        answer=[
            [each["name"], num(each["estimate"]), *(_end(each[side]) for side in ("lower", "upper"))]
            for each in release["answer"] or ()
        ],
        beliefs=_beliefs(release["risk"]["posterior"]),
    )


_PARTS = {"dp_flavor": "Kind of differential privacy"}  # headings of what the record calls otherwise


def _fields(deployment: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the parts of the deployment with the names and values of their fields."""
    found = []
    for part, fields in deployment.items():
        rows = []
        for name, value in fields.items():
            if isinstance(value, Mapping):
                value = ", ".join(f"{key} = {num(each)}" for key, each in value.items() if each is not None)
            rows.append((name.replace("_", " "), str(value)))
        found.append((_PARTS.get(part, part.replace("_", " ").capitalize()), rows))
    return found


def _end(value: float | None) -> str:
    return "none" if value is None else num(value)


def _beliefs(posterior: Mapping[str, float]) -> tuple[str, list[tuple[str, str]]]:
    """Return what an attacker believes at most after by the belief before: a curve, and points to mark."""
    prior, after = next(iter(posterior.items()))
    before, beyond = float(prior) / (1 - float(prior)), after / max(1 - after, 1e-300)
    odds = beyond / before
    points = [(p / 50, (p / 50) * odds / (1 - p / 50 + (p / 50) * odds)) for p in range(51)]

    def place(x: float, y: float) -> tuple[str, str]:
        return f"{40 + 260 * x:.1f}", f"{180 - 160 * y:.1f}"

    return " ".join(",".join(place(*point)) for point in points), [
        place(float(p), q) for p, q in posterior.items()
    ]
