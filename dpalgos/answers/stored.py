"""A released model as plain data, for the record of a release, and back.

All of it was released, or is public: what :class:`dpalgos.intervals.released.ReleasedRegression` holds, the
names of the coefficients, and the public map to their units.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpalgos.answers.model import ReleasedModel
from dpalgos.errors import InputError
from dpalgos.intervals.released import Center, ReleasedRegression
from dpalgos.mechanisms.for_intervals.mean_residual import InterceptShift
from dpalgos.mechanisms.for_intervals.score_curvature import ScoreCurvature
from dpalgos.mechanisms.for_intervals.tails import Tail
from dpalgos.models.families import get_family
from dpalgos.typing import FloatArray

_ARRAYS = ("moments", "moments_std", "outer", "middle", "coef", "clip", "n_rows", "lost")


def plain_model(model: ReleasedModel) -> dict[str, Any] | None:
    """Return a whole model as plain data; None where a number is not finite."""
    released = model.released
    tail = released.tail
    found = {
        "response": model.response,
        "intercept": model.intercept,
        "offset": model.offset,
        "promise": model.promise,
        "terms": list(model.terms),
        "groups": {name: list(own) for name, own in model.groups.items()},
        "columns": list(model.columns),
        "matrix": model.matrix.tolist(),
        "shift": model.shift.tolist(),
        "family": released.family.name,
        "level": released.level,
        "has_offset": released.has_offset,
        "arrays": {name: getattr(released, name).tolist() for name in _ARRAYS},
        "curvature": _plain(released.curvature._asdict()),
        "center": _plain(released.center._asdict()),
        "intercept_shift": _plain(released.shift._asdict()),
        "tail": None if tail is None else _plain({"above": tail.above, "std": tail.std}),
    }
    return found if _is_finite(found) else None


def model_of(content: Mapping[str, Any]) -> ReleasedModel:
    """Return the model that plain data hold; refuse what is none."""
    try:
        curvature, shift = _arrays(content["curvature"]), _arrays(content["intercept_shift"])
        hidden, gross = (
            np.asarray(each, dtype=bool) for each in (curvature.pop("hidden"), shift.pop("gross"))
        )
        model = ReleasedModel(
            response=str(content["response"]),
            intercept=str(content["intercept"]),
            offset=str(content.get("offset", "")),  # version 2.0 did not store it
            promise=str(content["promise"]),
            terms=tuple(content["terms"]),
            groups={name: tuple(own) for name, own in content["groups"].items()},
            columns=tuple(content["columns"]),
            matrix=np.array(content["matrix"], dtype=float),
            shift=np.array(content["shift"], dtype=float),
            released=ReleasedRegression(
                level=float(content["level"]),
                family=get_family(content["family"]),
                has_offset=bool(content["has_offset"]),
                curvature=ScoreCurvature(**curvature, hidden=hidden),
                center=Center(**_arrays(content["center"])),
                shift=InterceptShift(**shift, gross=gross),
                tail=None if content["tail"] is None else Tail(**_arrays(content["tail"])),
                **_arrays(content["arrays"]),
            ),
        )
        model.coefficients()  # refuses arrays that do not go together
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, np.linalg.LinAlgError):
        raise InputError(
            "the record holds no released model that can be read; make it again by dpcost release"
        ) from None
    return model


def _plain(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(part).tolist() for name, part in parts.items()}


def _arrays(content: Mapping[str, Any]) -> dict[str, FloatArray]:
    return {name: np.array(part, dtype=float) for name, part in content.items()}


def _is_finite(content: Any) -> bool:
    if isinstance(content, dict):
        return all(map(_is_finite, content.values()))
    if isinstance(content, list):
        return all(map(_is_finite, content))
    return not isinstance(content, float) or bool(np.isfinite(content))
