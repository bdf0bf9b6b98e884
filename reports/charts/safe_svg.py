"""Pictures from files that somebody else may have written, made safe to put into a page."""

import re
from xml.etree import ElementTree

_SVG = "http://www.w3.org/2000/svg"
_ELEMENTS = {"svg", "g", "title", "desc", "defs", "clipPath", "path", "rect", "line", "text", "circle"}
_ATTRIBUTES = {
    *("aria-hidden", "aria-roledescription", "class", "clip-path", "d", "display", "fill", "fill-opacity"),
    *("font-family", "font-size", "font-style", "font-weight", "height", "id", "opacity", "pointer-events"),
    *("role", "stroke", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit"),
    *("stroke-opacity", "stroke-width", "text-anchor", "transform", "version", "viewBox", "width"),
    *("cx", "cy", "r", "x", "x1", "x2", "y", "y1", "y2"),
}
_ADDRESS = re.compile(r"url\(#clip\d+\)")


def safe_svg(text: str) -> str:
    """Return a picture written anew with the elements and attributes of our own; "" for any other picture."""
    if not text or "<!" in text:  # no declaration, comment or marked section stands in ours
        return ""
    try:
        root = ElementTree.fromstring(text)
        if not all(_is_known(each) for each in root.iter()):
            return ""
        for each in root.iter():
            each.tag = each.tag.removeprefix(f"{{{_SVG}}}")
        return ElementTree.tostring(root, encoding="unicode")
    except (ElementTree.ParseError, RecursionError, ValueError):
        return ""


def _is_known(element: ElementTree.Element) -> bool:
    if not isinstance(element.tag, str) or element.tag.removeprefix(f"{{{_SVG}}}") not in _ELEMENTS:
        return False
    return all(
        name in _ATTRIBUTES
        and ("url(" not in value.lower() or _ADDRESS.fullmatch(value) is not None)
        and (name != "id" or re.fullmatch(r"clip\d+", value) is not None)
        for name, value in element.items()
    )
