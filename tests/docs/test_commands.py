"""The documentation names every command and every option."""

import re
from pathlib import Path

import typer

from flows.cli.main import app

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN = "\n".join(
    page.read_text(encoding="utf-8")
    for folder in ("guide", "tutorials", ".")
    for page in (DOCS / folder).glob("*.md")
)


def commands(command, name=""):
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        yield from commands(inner, f"{name} {each}".strip())


def test_every_command_and_option_stands_in_the_guide():
    lost = []
    for name, command in commands(typer.main.get_command(app)):
        if f"dpcost {name}" not in WRITTEN:
            lost.append(name)
        for option in (each for one in command.params for each in one.opts if each.startswith("--")):
            if not re.search(rf"{option}\b", WRITTEN):
                lost.append(f"{name} {option}")
    assert lost == []
