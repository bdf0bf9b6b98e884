"""The exception for errors that a caller can correct."""

import difflib
import inspect
import warnings
from collections.abc import Iterable
from numbers import Number


class BrokenEstimator(RuntimeError):
    """The code of an estimator breaks a rule; the message says which, and what to write."""


class InputError(ValueError):
    """An argument is wrong; the message names it, its value, what is allowed and what to do.

    Values of ``X`` and ``y`` are private and never appear in a message.
    """


class PrivacyWarning(UserWarning):
    """An estimate is as private as stated, but its guarantee may mean less than it seems."""


class SeededNoiseWarning(PrivacyWarning):
    """The noise comes from a known seed: who knows it can subtract the noise, and nothing is private."""


class AccuracyWarning(UserWarning):
    """Released numbers show that an estimate may be far off; see :attr:`dpalgos.Result.cautions`."""


_OF_LIBRARIES = ("dpalgos", "sklearn", "joblib")  # which a warning passes through


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller's code: the nearest one outside this library and scikit-learn."""
    frame, level = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] in _OF_LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, category, stacklevel=level)


def shown(value: object) -> str:
    """Return a value for a message; of one that may hold rows, such as a data frame, only its type."""
    return repr(value) if _is_plain(value) else f"a {type(value).__name__}"


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return len(value) < 10 and all(map(_is_plain, value))
    return value is None or isinstance(value, str | Number)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """Build the error for a name that is not in a list, with its nearest match."""
    names = sorted(known)
    nearest = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of: {', '.join(names)}"
    return InputError(f"{kind} must be a known name, got {shown(name)}; {hint}")
