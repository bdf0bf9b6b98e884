"""The file of a prepared dataset: its arrays, and the rest of its fields as JSON."""

import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic_core import to_jsonable_python

T = TypeVar("T")


def design_bytes(design: Any) -> bytes:
    """Serialize a dataclass of arrays, numbers and texts."""
    values = {field.name: getattr(design, field.name) for field in fields(design)}
    arrays: dict[str, Any] = {name: each for name, each in values.items() if isinstance(each, np.ndarray)}
    metadata = {name: to_jsonable_python(value) for name, value in values.items() if name not in arrays}
    buffer = io.BytesIO()
    np.savez(buffer, facts=np.array(json.dumps(metadata)), **arrays)
    return buffer.getvalue()


def read_design(path: Path, kind: type[T]) -> T:
    """Return the dataclass that `design_bytes` serialized; its sequences are tuples."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "facts"}
        metadata = json.loads(str(stored["facts"]))
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in metadata.items()}
    return kind(**plain, **arrays)
