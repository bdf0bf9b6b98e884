"""Progress of a run on standard error: a live bar on a terminal, occasional lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from reports.visible import visible

if TYPE_CHECKING:
    from prefect.futures import PrefectFuture

T = TypeVar("T")

_SECONDS_BETWEEN_LINES, _SECONDS_OF_SILENCE = 5.0, 60.0
_counts = {"stored": 0, "all": 0}  # of the blocks of the current run
_run_began = time.monotonic()


def start_clock() -> None:
    """Start the clock of a run, which includes reading and preparing its data."""
    global _run_began
    _run_began = time.monotonic()


def stored_blocks() -> str:
    """Say which blocks of this process's run are stored, for a run that ends early."""
    if not _counts["stored"]:
        return "finished blocks are stored"
    return f"{_counts['stored']} of {blocks(_counts['all'])} are stored"


def finished(study: str, futures: Sequence["PrefectFuture[T]"], work: Sequence[float]) -> tuple[list[T], int]:
    """Wait until all blocks of a study have ended; return their results, and how many were stored.

    Show how many are done, the time since the run began, and the time left. The time left follows from the
    computed part of the work since the call. An error of a block is raised.
    """
    from prefect.futures import as_completed
    from tqdm import tqdm

    n, n_done, n_stored, is_live, submitted = len(futures), 0, 0, sys.stderr.isatty(), time.monotonic()
    work_of, left, computed, rest = dict(zip(futures, work, strict=True)), sum(work), 0.0, ""
    _counts["all"] += n

    def line() -> tuple[int, str]:
        took = f"{time.monotonic() - _run_began:.0f} s"
        return n_done, f"{study}: {n_done} of {blocks(n)}, {took}" + f", {rest}" * bool(rest)

    bar = tqdm(total=n, desc=study, unit="block", leave=False, file=sys.stderr, disable=not is_live)
    with nullcontext() if is_live else _repeated(line):
        for future in as_completed([*futures]):
            future.wait()
            n_done += 1
            _counts["stored"] += future.state.is_completed()
            left -= work_of[future]
            if future.state.name == "Cached":
                n_stored += 1
            else:
                computed += work_of[future]
            if computed:
                rest = f"about {(time.monotonic() - submitted) * left / computed:.0f} s left"
            bar.set_postfix_str(rest, refresh=False)
            bar.update()
    bar.close()
    from_cache = f" ({n_stored} from the cache)" if n_stored else ""
    took = f"{blocks(n)}{from_cache}, {time.monotonic() - _run_began:.0f} s"
    say(f"{study}: {blocks(n)}, all from the cache" if n_stored == n else f"{study}: {took}")
    results = [future.result() for future in futures]
    states: list[Any] = [future.state for future in futures]
    if lost := sum(not state.data.is_persisted for state in states):  # Prefect only logs it
        say(f"note: {blocks(lost)} could not be recorded in DPCOST_HOME, and will be computed again")
    return results, n_stored


@contextmanager
def _repeated(line: Callable[[], tuple[int, str]]) -> Iterator[None]:
    """Say a line every few seconds if its number changed, else every minute, while the body runs."""
    over = threading.Event()

    def repeat() -> None:
        last_number, silent = -1, 0
        while not over.wait(_SECONDS_BETWEEN_LINES):
            number, sentence = line()
            silent += 1
            if number != last_number or silent * _SECONDS_BETWEEN_LINES >= _SECONDS_OF_SILENCE:
                last_number, silent = number, 0
                say(sentence)
                log_in_run(sentence)

    thread = threading.Thread(target=copy_context().run, args=[repeat], daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def counter(what: str, unit: str) -> Callable[[int], None]:
    """Return a function that takes a progress count and occasionally prints it."""
    last_line = time.monotonic()

    def show(count: int) -> None:
        nonlocal last_line
        if (now := time.monotonic()) - last_line >= _SECONDS_BETWEEN_LINES:
            last_line = now
            say(f"{what}: {count:,} {unit}")

    return show


def say(sentence: str) -> None:
    """Write one line to standard error; a closed stream does not stop the run."""
    with suppress(OSError):
        print(visible(sentence), file=sys.stderr, flush=True)


def log_in_run(sentence: str) -> None:
    """Show a sentence on Prefect's page of the current flow run, if there is one."""
    if "prefect.context" in sys.modules:
        from prefect import get_run_logger
        from prefect.exceptions import MissingContextError

        with suppress(MissingContextError):
            get_run_logger().info(sentence)


def blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"
