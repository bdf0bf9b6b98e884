"""The prose linter: proselint with the rules of this project."""
