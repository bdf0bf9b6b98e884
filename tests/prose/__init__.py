"""The rules of prose of this project, and their check."""
