"""What text a request may carry: UTF-8 that every database stores and every answer can repeat.

JSON can write half of a surrogate pair, which no UTF-8 can, and a null character, which PostgreSQL refuses. A
server that stored the former could not list its runs any more, and its worker would die of that.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_WHOLE_ESCAPES = re.compile(
    rb"\\(?:[^u]|ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|u(?!0000|d[89a-f])[0-9a-f]{4})", re.I | re.S
)
_ODD_ESCAPE = re.compile(rb"\\u(?:0000|d[89a-f])", re.I)


def text_problem(body: bytes) -> str:
    """Say what is wrong with the text of a request's body in JSON; nothing if nothing is."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return "a request must be text in UTF-8"
    if b"\0" in body or (_ODD_ESCAPE.search(body) and b"\\u" in _WHOLE_ESCAPES.sub(b"", body)):
        return "a request may hold no null character and no half of a surrogate pair"
    return ""


async def whole_body(receive: Receive) -> bytes:
    """Take the body of a request."""
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


def given_again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was taken, in one piece, and then what comes after it."""
    pieces = [body]

    async def receiving() -> MutableMapping[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": False}
        return await receive()

    return receiving


def checked_messages(receive: Receive) -> Receive:
    """Return what gives a socket's messages, and its end in the place of one whose text is odd."""

    async def receiving() -> MutableMapping[str, Any]:
        message = await receive()
        body = message.get("bytes") or (message.get("text") or "").encode(errors="surrogatepass")
        return {"type": "websocket.disconnect", "code": 1007} if text_problem(body) else message

    return receiving
