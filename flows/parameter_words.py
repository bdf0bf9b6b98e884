"""What a server says of a wrong parameter that may be left empty: which values are allowed.

The form's checker takes such a parameter for a choice between a type and nothing, and says of a value of
neither only that it is "not valid under any of the given schemas".
"""

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
    """Let this process's checks of parameters name the types that are allowed, from now on."""
    from prefect.utilities.schema_tools import validation

    checks = validation._VALIDATOR.VALIDATORS
    if not isinstance(checks["anyOf"], _Worded):
        checks["anyOf"] = _Worded(checks["anyOf"])


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
                got = repr(value)
                yield ValidationError(f"must be {kinds}, got {got if len(got) < 100 else f'{got[:80]} …'}")
            else:
                yield error


def _limits(choice: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the limits of a number, as far as its schema has any."""
    if choice["type"] not in ("integer", "number"):
        return ""
    least, most = schema.get("minimum"), schema.get("maximum")
    return "".join(
        [f" of at least {least:,}" if least is not None else "", f" and at most {most:,}" if most else ""]
    )
