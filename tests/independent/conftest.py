"""Shared by the tests that check ε by arithmetic of their own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
