"""Check the prose of docs, docstrings and messages: ``python -m tests.prose [FILE…]``."""

import sys
from pathlib import Path

from tests.prose.linter import faults, files

if __name__ == "__main__":
    named = [Path(name).resolve() for name in sys.argv[1:]] or files()
    found = [fault for path in named for fault in faults(path)]
    print("\n".join([*found, f"{len(found)} faults of prose in {len(named)} files"]))
    sys.exit(bool(found))
