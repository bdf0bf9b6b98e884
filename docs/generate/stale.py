"""List the figures of the documentation to measure again; with ``--fail``, fail if there are any."""

import sys

from generate import audits, measured


def main(*, fail: bool) -> int:
    figures = [*measured.stale(), *audits.stale()]
    for place, why, command in figures:
        print(f"{place}: measured {why}; measure again: {command}", file=sys.stderr)
    return 1 if figures and fail else 0


if __name__ == "__main__":
    sys.exit(main(fail="--fail" in sys.argv))
