"""Who may see the page: visitors without its token, other hosts and other origins are refused."""

import asyncio

import pytest

from flows.guard import Guarded
from flows.page.serve import Desk
from tasks.protocol.draft import opened_files
from tests.flows.page.driving import people

PORT, HOST = 8799, "127.0.0.1:8799"


async def application(scope, receive, send):
    await send({"type": "seen"})


def answer(guarded, *, token="", cookie="", kind="http", path="/", **headers):
    """Return the messages that a visitor gets."""
    named = {"host": HOST, "cookie": f"dpcost_page_{PORT}={cookie}", **headers}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "path": path, "headers": pairs, "query_string": f"token={token}".encode()}
    asyncio.run(guarded(scope, None, send))
    return sent


@pytest.fixture
def guarded():
    return Guarded(application, PORT)


def test_the_address_sets_a_cookie_that_opens_the_page(guarded):
    first, _ = answer(guarded, token=guarded.token)
    headers = dict(first["headers"])
    assert (first["status"], headers[b"location"]) == (303, b"/")
    assert b"HttpOnly" in headers[b"set-cookie"]
    assert b"SameSite=Strict" in headers[b"set-cookie"]
    assert answer(guarded, cookie=guarded.token) == [{"type": "seen"}]
    assert answer(guarded, cookie=guarded.token, kind="websocket", origin=f"http://{HOST}") == [
        {"type": "seen"}
    ]


@pytest.mark.parametrize(
    ("path", "place"), [("/2/", b"/2/"), ("//other.org", b"/other.org"), ("/a\r\nb", b"/a%0D%0Ab")]
)
def test_the_token_leaves_the_address_and_no_other_host_is_reached(guarded, path, place):
    first, _ = answer(guarded, token=guarded.token, path=path)
    assert dict(first["headers"])[b"location"] == place


@pytest.mark.parametrize(
    "others", ['prefs={"theme":"dark"}; {own}', "{own}; a[b]=1", "a; =; b==c ;{own}", 'c="x; {own}; d="']
)
def test_cookies_of_other_programs_do_not_matter(guarded, others):
    own = f"dpcost_page_{PORT}={guarded.token}"
    assert answer(guarded, cookie=f"x; {others.replace('{own}', own)}") == [{"type": "seen"}]
    foreign = others.replace("{own}", f"dpcost_page_1={guarded.token}; dpcost_page_{PORT}=another")
    assert answer(guarded, cookie=f"x; {foreign}")[0]["status"] == 403


@pytest.mark.parametrize(
    "visit",
    [
        {"cookie": ""},
        {"cookie": "another"},
        {"token": "another"},
        {"token": "caf\u00e9"},
        {"host": "evil.example"},
        {"host": "127.0.0.1:1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
    ],
    ids=str,
)
def test_others_are_refused(guarded, visit):
    visit = {"cookie": guarded.token, **visit} if "token" not in visit else visit
    assert answer(guarded, **visit)[0]["status"] == 403
    assert answer(guarded, kind="websocket", **visit)[0]["type"] == "websocket.close"


@pytest.mark.parametrize(
    "path", ["../people.csv", "x/../../people.csv", "%2e%2e/people.csv", "/etc/passwd", "..\\people.csv"]
)
def test_no_file_outside_the_results_is_served(tmp_path, home, path):
    desk = Desk(people(tmp_path, n=60))
    desk.open(opened_files("people.csv", tmp_path))
    (tmp_path / "people-results" / "table.md").write_text("released")
    assert served_status(desk, "/1/results/table.md") == 200
    assert served_status(desk, f"/1/results/{path}") in (400, 404)


def served_status(desk, path):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():  # the visitor waits for all of the answer
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "query_string": b""}
    asyncio.run(desk.router({**scope, "headers": [(b"host", HOST.encode())]}, receive, send))
    return sent[0]["status"]
