"""Errors that may leave a task: those that the user can correct, and any other without its message.

An error's own message may quote a value of the data, and the orchestrator records and shows the messages
of errors. So an error that nobody foresaw leaves as its type and its place.
"""

import functools
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from data.errors import DataError
from data.store.folders import PROJECT_ROOT
from dpalgos import InputError
from dpalgos.errors import BrokenEstimator
from dpalgos.plugins import outside_files
from tasks import SpecError as SpecError

NO_MEMORY = (
    "memory is exhausted, or ulimit -v is too low; free some memory, or use fewer --workers or a smaller "
    "study"
)
USER_ERRORS = (InputError, DataError, SpecError, BrokenEstimator)
P = ParamSpec("P")
T = TypeVar("T")


def require_once(what: str, values: Iterable[object], remedy: str = "take one out") -> None:
    """Refuse a value that occurs twice; ``what`` says what must be."""
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise SpecError(f"{what}, got {twice[0]!r} twice; {remedy}")


class Fault(RuntimeError):
    """An error that nobody foresaw: its type, its place and the frames that led there, outermost first."""

    def __init__(self, message: str, frames: tuple[str, ...] = (), in_plugin: bool = False) -> None:
        super().__init__(message, frames, in_plugin)
        self.frames, self.in_plugin = frames, in_plugin

    def __str__(self) -> str:
        return str(self.args[0])


def without_message(error: BaseException) -> Fault:
    if isinstance(error, Fault):
        return error
    frames = tuple(_place(frame) for frame in traceback.extract_tb(error.__traceback__))
    ours = [frame for frame in frames if not frame.startswith("/")]
    plugins = tuple(f"{_short(file)}:" for file in outside_files().values())
    theirs = [frame for frame in frames if plugins and frame.startswith(plugins)]
    where = (theirs or ours or frames or ("an unknown place",))[-1]
    return Fault(f"{type(error).__name__} in {where}", frames, bool(theirs))


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """Re-raise user errors; reduce all others to type and place."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except USER_ERRORS:
            raise
        except MemoryError:
            raise SpecError(NO_MEMORY) from None
        except OSError as error:
            if error.filename and error.strerror:  # its message is these two
                raise
            raise without_message(error) from None
        except Exception as error:
            raise without_message(error) from None

    return call


def _place(frame: traceback.FrameSummary) -> str:
    return f"{_short(frame.filename)}:{frame.lineno} ({frame.name})"


def _short(file: str) -> str:
    """Return a file of the project relative to its root."""
    return file if "site-packages" in file else file.removeprefix(f"{PROJECT_ROOT}/")
