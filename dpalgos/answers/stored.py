"""A released model as plain data, for the record of a release, and its inverse.

All of the data are released or public: the contents of
:class:`dpalgos.intervals.regression.ReleasedRegression`, the names of the coefficients, and the public map to
their units.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpalgos.answers.model import ReleasedModel
from dpalgos.errors import InputError
from dpalgos.intervals.regression import Center, InterceptShift, ReleasedRegression, ScoreCurvature
from dpalgos.intervals.tails import Tail
from dpalgos.models.families import get_family
from dpalgos.typing import FloatArray

# Shapes by the number of coefficients d. Records of 2.0 have an axis of replicates of length 1, and "lost".
_VECTOR, _SQUARE, _NUMBER = "d", "dd", ""
_ARRAYS = {"moments": _SQUARE, "outer": _SQUARE, "coef": _VECTOR}
_ARRAYS |= {"moments_std": _NUMBER, "middle": _NUMBER, "clip": _NUMBER, "n_rows": _NUMBER}
_CURVATURE = {"vectors": _SQUARE, "values": _VECTOR, "variances": _SQUARE, "hidden": _VECTOR, "ones": _VECTOR}
_CURVATURE |= {"total": _NUMBER, "noise": _NUMBER, "heavy": _NUMBER}
_CENTER = {"theta": _VECTOR, "step": _VECTOR, "score_std": _NUMBER}
_FLAGS = "gross", "dispersed"
_SHIFT = {"moved": _VECTOR, "image": _SQUARE, "variance": _VECTOR, "bias": _VECTOR}
_SHIFT |= dict.fromkeys(_FLAGS, _VECTOR)


def plain_model(model: ReleasedModel) -> dict[str, Any] | None:
    """Return a whole model as plain data; None if a number is not finite."""
    released = model.released
    tail = released.tail
    content = {
        "response": model.response,
        "intercept": model.intercept,
        "offset": model.offset,
        "ratios": model.ratios,
        "promise": model.promise,
        "terms": list(model.terms),
        "groups": {name: list(members) for name, members in model.by_term.items()},
        "columns": list(model.columns),
        "declaration": model.declaration,
        "matrix": model.matrix.tolist(),
        "shift": model.shift.tolist(),
        "family": released.family.name,
        "level": released.level,
        "has_offset": released.has_offset,
        "arrays": _plain({name: getattr(released, name) for name in _ARRAYS}),
        "curvature": _plain(released.curvature._asdict()),
        "center": _plain(released.center._asdict()),
        "intercept_shift": _plain(released.shift._asdict()),
        "tail": None if tail is None else _plain({"above": tail.above, "std": tail.std}),
    }
    return content if _is_finite(content) else None


def model_of(content: Mapping[str, Any]) -> ReleasedModel:
    """Return the model from plain data; refuse invalid data."""
    try:
        d = len(content["arrays"]["coef"])
        curvature, shift = (
            _shaped(content["curvature"], _CURVATURE, d),
            _shaped({"dispersed": 0, **content["intercept_shift"]}, _SHIFT, d),  # not in records before 5.0
        )
        hidden, shift = (
            curvature.pop("hidden").astype(bool),
            shift | {k: shift[k].astype(bool) for k in _FLAGS},
        )
        model = ReleasedModel(
            response=str(content["response"]),
            intercept=str(content["intercept"]),
            offset=str(content.get("offset", "")),  # version 2.0 did not store it
            ratios=str(content.get("ratios", "")),
            promise=str(content["promise"]),
            terms=tuple(content["terms"]),
            by_term={name: tuple(members) for name, members in content["groups"].items()},
            columns=tuple(content["columns"]),
            declaration=content.get("declaration"),  # version 2.1 did not store it
            matrix=np.array(content["matrix"], dtype=float),
            shift=np.array(content["shift"], dtype=float),
            released=ReleasedRegression(
                level=float(content["level"]),
                family=get_family(content["family"]),
                has_offset=bool(content["has_offset"]),
                curvature=ScoreCurvature(**curvature, hidden=hidden),
                center=Center(**_shaped(content["center"], _CENTER, d)),
                shift=InterceptShift(**shift),
                tail=None if content["tail"] is None else Tail(**_arrays(content["tail"])),
                **_shaped(content["arrays"], _ARRAYS, d),
            ),
        )
        model.coefficients()  # refuses arrays with inconsistent shapes
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, np.linalg.LinAlgError):
        raise InputError("the record holds no readable model; run dpcost release again to write it") from None
    return model.after_offset()


def _plain(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(part).tolist() for name, part in parts.items()}


def _arrays(content: Mapping[str, Any]) -> dict[str, FloatArray]:
    return {name: np.array(part, dtype=float) for name, part in content.items()}


def _shaped(content: Mapping[str, Any], shapes: Mapping[str, str], d: int) -> dict[str, Any]:
    """Return arrays in the shapes of one estimate, and numbers; one number replaces a constant array."""

    def shaped(part: Any, axes: str) -> Any:
        array, shape = np.array(part, dtype=float), tuple(d for _ in axes)
        if not axes:
            return float(array.item())
        return np.full(shape, array.item()) if array.size == 1 else array.reshape(shape)

    return {name: shaped(content[name], axes) for name, axes in shapes.items()}


def _is_finite(content: Any) -> bool:
    if isinstance(content, dict):
        return all(map(_is_finite, content.values()))
    if isinstance(content, list):
        return all(map(_is_finite, content))
    return not isinstance(content, float) or bool(np.isfinite(content))
