"""Tables of measured results as Markdown and as a page that needs no network."""

from collections.abc import Sequence
from html import escape


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines))


def html_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in HTML; its cells are text."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(line, 'td') for line in lines)}</table>"


def html_page(title: str, parts: Sequence[str]) -> str:
    style = (
        "body{font:15px sans-serif;max-width:70em;margin:2em auto}td,th{padding:.3em .8em;text-align:left}"
    )
    head = f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
    return "\n".join([head, f"<h1>{escape(title)}</h1>", *parts]) + "\n"
