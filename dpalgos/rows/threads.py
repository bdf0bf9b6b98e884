"""Work on parts of the rows, by several threads and in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def in_order(function: Callable[[S], T], parts: Iterable[S], threads: int) -> Iterator[T]:
    """Yield what a function returns for each part; threads are a few parts ahead.

    The order does not depend on the number of threads. Neither does a sum of the results.
    """
    if threads == 1:
        yield from map(function, parts)
        return
    ahead: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="rows") as pool:
        for part in parts:
            ahead.append(pool.submit(function, part))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
