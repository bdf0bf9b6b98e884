"""A report as one Markdown text that can be read away from its folder, e.g. on the server's pages."""

import base64
import re
from pathlib import Path

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|#)([^)]*)\)")
MAX_BYTES = 1_000_000  # of all figures together


def standalone_markdown(report: Path, address: str = "") -> str:
    """Return a report's ``report.md`` with its figures embedded.

    Figures that would make it larger than `MAX_BYTES` are left out; their description stays.

    Parameters
    ----------
    report : Path
        The report's page.
    address : str
        Of the report's folder, if a server shows it: links lead there. Without one the report is named by its
        path, and what links to files beside it is plain text, since no browser follows a link from a server's
        page to a file.
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

    text = (folder / "report.md").read_text(encoding="utf-8")
    if address:
        text = _LINK.sub(rf"[\1]({address}/\2)", text)
        whole = f"[The whole report]({address}/{report.name})"
    else:
        text = _LINK.sub(r"\1", text)
        whole = f"The whole report, to be opened in a browser: `{report}`"
    return f"{whole}\n\n{_IMAGE.sub(embedded, text)}"
