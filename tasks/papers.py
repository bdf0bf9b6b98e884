"""The papers whose claims and figures the studies repeat: ``claims.toml`` names them."""

import tomllib
from pathlib import Path

CLAIMS_FILE = Path(__file__).with_name("claims.toml")


def paper_names() -> dict[str, str]:
    """Return the name of each paper by its key."""
    return dict(tomllib.loads(CLAIMS_FILE.read_text(encoding="utf-8"))["papers"])
