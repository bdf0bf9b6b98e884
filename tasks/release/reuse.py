"""Second moments that an earlier answer released, for a release file that says ``reuse = "ledger"``.

They are numbers that were drawn with noise, charged, stored with their answer, and may be shown, so that to
start from them costs nothing more. They are those of the same rows (by content), columns, units, bounds and
rule for clip levels, or else no moments of what is asked: everything in the question decides but ``_FREE``.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from data.ledger import Charge, Ledger, Request
from dpalgos import InputError
from dpalgos.hardened_release import Release, ReleasePlan
from dpalgos.until import UntilPlan

REUSE = "reuse"
_STORED = "second_moments"
_LARGEST = 150  # columns: an answer stays within the room that its charge reserves on the disk
_FREE = {"interval", "n_whitenings", "shrinkage", REUSE}  # settings that do not say what moments are of


def moments_to_store(drawn: Release) -> dict[str, Any]:
    """Return the released moments of an answer, as plain data, where it has any."""
    if _STORED not in drawn.diagnostics:
        return {}
    (values,), (std,) = drawn.diagnostics[_STORED], drawn.diagnostics[f"{_STORED}_std"]
    return {_STORED: {"values": values.tolist(), "std": float(std)}} if len(values) <= _LARGEST else {}


def start_from_ledger(
    ledger: Ledger, request: Request, plan: ReleasePlan | UntilPlan
) -> tuple[ReleasePlan, list[Charge]]:
    """Return the plan with the moments that the answer of the largest ε released, and the charges behind it.

    The first charge released the moments; each of the others, those that the one before started from.

    Raises
    ------
    InputError
        If there are none, or the request cannot start from any.
    """
    if (reuse := request.parameters[REUSE]) != "ledger":
        raise InputError(f'params.reuse must be "ledger", got {reuse!r}; correct it or leave it out')
    if not isinstance(plan, ReleasePlan):
        raise InputError("params.reuse must be left out where a width is wanted; ask with --epsilon")
    if "public" in request.parameters:  # what is known of the rows' shape decides what is released
        raise InputError("params.reuse must be left out where there are public rows; take one of the two")
    if not hasattr(plan.params, "released_moments"):
        raise InputError(
            f"params.reuse must be left out for {request.estimator}, which starts from no moments"
        )
    answers = ledger.answers(request)
    found = [
        charge
        for charge in answers
        if charge.release and _STORED in charge.release and _kind(charge) == _kind(request)
    ]
    if not found:
        raise InputError(
            f"params.reuse needs an answer of {request.estimator} in the ledger that may be shown, about the "
            "same rows, columns in the same order, units, bounds and clip, and there is none; leave "
            "reuse out"
        )
    # Not the least noise: that may be due to a clip level which a small budget found too low.
    sources = [max(found, key=lambda charge: charge.epsilon)]
    by_id = {charge.id: charge for charge in answers}
    while earlier := sources[-1].accounting["facts"].get("started_from"):
        sources.append(by_id[earlier])
    assert sources[0].release is not None
    stored = sources[0].release[_STORED]
    moments = np.array(stored["values"], dtype=float), float(stored["std"])
    known: dict[str, Any] = {"released_moments": moments}
    return replace(plan, params=replace(plan.params, **known)), sources


def _kind(asked: Request | Charge) -> dict[str, Any]:
    return {name: value for name, value in asked.parameters.items() if name not in _FREE}
