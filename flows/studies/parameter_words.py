"""What a server says of a wrong parameter: which values are allowed, and a line of the wrong one at most.

The form's checker takes a parameter that may be left empty for a choice between a type and nothing, and says
of a value of neither only that it is "not valid under any of the given schemas". Of text that does not match
a pattern it shows the pattern, and all of the text.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "empty",
}


def say_what_is_allowed() -> None:
    """Let this process's checks of parameters name what is allowed, in words, from now on."""
    from prefect.utilities.schema_tools import validation

    checks = validation._VALIDATOR.VALIDATORS
    if not isinstance(checks["anyOf"], _Worded):
        checks["anyOf"] = _Worded(checks["anyOf"])
        checks |= {"enum": _check_choice, "pattern": _check_pattern, "maxLength": _check_length}


def check_in_words(parameters: dict[str, Any], schema: dict[str, Any], **options: Any) -> None:
    """Check parameters as the server does, with its options.

    Raises
    ------
    prefect.utilities.schema_tools.validation.ValidationError
        If one is wrong; the message names it, its value and what is allowed.
    """
    from prefect.utilities.schema_tools.validation import validate

    say_what_is_allowed()
    validate(parameters, schema, raise_on_error=True, **options)


class _Worded:
    """The check of a choice between schemas, in words where all that they ask for is a type.

    Parameters
    ----------
    check : callable
        The check as it was.
    """

    def __init__(self, check: Callable[..., Any]) -> None:
        self.check = check

    def __call__(self, validator: Any, choices: list[Any], value: Any, schema: Any) -> Iterator[Any]:
        """Yield what is wrong with a value."""
        from jsonschema.exceptions import ValidationError

        for error in self.check(validator, choices, value, schema):
            if all(choice.keys() == {"type"} and choice["type"] in _KINDS for choice in choices):
                kinds = " or ".join(_KINDS[choice["type"]] + _limits(choice, schema) for choice in choices)
                yield ValidationError(f"must be {kinds}, got {_short(value)}")
            else:
                yield error


def _check_choice(validator: Any, choices: list[Any], value: Any, schema: Any) -> Iterator[Any]:
    """Yield what is wrong with a value that has to be one of some."""
    from jsonschema.exceptions import ValidationError

    if value not in choices:
        yield ValidationError(f"{_short(value)} is not one of {choices!r}")


def _check_pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    """Yield what is wrong with text that has to look as the schema's `allowed` says."""
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and not re.search(pattern, value):
        allowed = schema.get("allowed", f"text that matches {pattern!r}")
        yield ValidationError(f"must be {allowed}, got {_short(value)}")


def _check_length(validator: Any, most: int, value: Any, schema: Any) -> Iterator[Any]:
    """Yield what is wrong with text that is too long."""
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and len(value) > most:
        yield ValidationError(f"must have at most {most:,} characters, got {len(value):,}: {_short(value)}")


def _short(value: Any) -> str:
    """Return a value as it is shown, no longer than a line."""
    shown = repr(value)
    return shown if len(shown) < 100 else f"{shown[:80]} …"


def _limits(choice: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the limits of a number, as far as its schema has any."""
    if choice["type"] not in ("integer", "number"):
        return ""
    least, most = schema.get("minimum"), schema.get("maximum")
    return "".join(
        [f" of at least {least:,}" if least is not None else "", f" and at most {most:,}" if most else ""]
    )
