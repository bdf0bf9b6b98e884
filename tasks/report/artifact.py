"""A report as one Markdown text that can be read away from its folder, e.g. on the server's pages."""

import base64
import re
from pathlib import Path

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|#)[^)]*\)")
MAX_BYTES = 1_000_000  # of all figures together


def standalone_markdown(report: Path) -> str:
    """Return ``report.md`` beside a report with its figures inside, and without links to files beside it.

    Figures that would make it larger than `MAX_BYTES` are left out; their description stays. The report is
    named by its path, since no browser follows a link from a server's page to a file.
    """
    folder, left = report.parent, MAX_BYTES

    def embedded(match: re.Match[str]) -> str:
        nonlocal left
        alt, name = match.groups()
        picture = (folder / name).read_bytes()
        if len(picture) > left:
            return f"*{alt}*"
        left -= len(picture)
        return f"![{alt}](data:image/png;base64,{base64.b64encode(picture).decode()})"

    text = _LINK.sub(r"\1", (folder / "report.md").read_text(encoding="utf-8"))
    return f"The whole report, to be opened in a browser: `{report}`\n\n{_IMAGE.sub(embedded, text)}"
