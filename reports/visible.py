"""Text without characters that cannot be seen: printed, in tables and on pages. It loads nothing else."""

from unicodedata import category

_INVISIBLE = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])  # categories of Unicode


def visible(text: str) -> str:
    """Return text whose control and invisible characters are escaped, except line feeds and tabs.

    A name, a query or a record may come from somebody else. A terminal would obey such characters, and they
    could hide or turn around the rest of a text or a page.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or category(char) not in _INVISIBLE else repr(char)[1:-1] for char in text
    )
