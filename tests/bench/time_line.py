"""Draw which process of a command computes when: ``python -m tests.bench.time_line COMMAND…``.

Each line is a process, each character half a second: ``#`` a whole core, ``+`` at least a half, ``.`` less.
The CPU seconds of a process stand before it. The last line states the wall time and the CPU time.
"""

import contextlib
import sys
import time
from collections import defaultdict

import psutil

STEP = 0.5  # seconds


def role_of(process: psutil.Process, command: int) -> str:
    words = " ".join(process.cmdline())
    name = "server" if "server_process" in words else "worker" if "forkserver" in words else "child"
    return f"{'command' if process.pid == command else name} {process.pid}"


def sampled(words: list[str]) -> tuple[dict[str, list[float]], float]:
    """Run a command; return each process's cores in use by time, and the wall time."""
    used: dict[str, list[float]] = defaultdict(list)
    before: dict[str, float] = {}
    began, step = time.monotonic(), 0
    running = psutil.Popen(words)
    while running.poll() is None:
        step += 1
        time.sleep(max(0.0, began + step * STEP - time.monotonic()))
        with contextlib.suppress(psutil.Error):
            for each in (running, *running.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    role, times = role_of(each, running.pid), each.cpu_times()
                    seconds = times.user + times.system
                    line = used[role]
                    line += [0.0] * (step - 1 - len(line)) + [(seconds - before.get(role, 0.0)) / STEP]
                    before[role] = seconds
    return used, time.monotonic() - began


def drawn(cores: list[float]) -> str:
    return "".join(
        "#" if each >= 0.9 else "+" if each >= 0.5 else "." if each >= 0.05 else " " for each in cores
    )


def main(words: list[str]) -> int:
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    used, wall = sampled(words)
    for role, cores in used.items():
        print(f"{role:16} {sum(cores) * STEP:5.1f} s {drawn(cores)}")
    print(f"wall {wall:.1f} s, CPU {sum(map(sum, used.values())) * STEP:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
