import asyncio
import base64

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from flows.server import app

HOSTS = ["127.0.0.1", "localhost", "dpcost.example.org"]
KNOWN = {"authorization": "Basic " + base64.b64encode(b"dpcost:right").decode()}


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "out"
    (folder / "housing").mkdir(parents=True)
    (folder / "housing" / "report.html").write_text("<h1>A report</h1>")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to(folder / "circle")
    return folder


@pytest.fixture
def ask(reports):
    """Return a function that sends a GET request to a guarded application that says yes to everything."""

    async def prefect(scope, receive, send):
        await PlainTextResponse("yes")(scope, receive, send)

    def ask(
        path, base="http://127.0.0.1:4200", folder=reports, site=reports / "site", method="GET", **headers
    ):
        guarded = app.guarded_app(prefect, folder, "dpcost:right", HOSTS, site)
        client = TestClient(guarded, base_url=base, follow_redirects=False, raise_server_exceptions=True)
        return client.request(method, path, headers=headers)

    return ask


@pytest.mark.parametrize(
    ("base", "status"),
    [
        ("http://127.0.0.1:4200", 200),
        ("http://localhost:4200", 200),
        ("https://dpcost.example.org", 200),
        ("http://rebound.example.org:4200", 400),
        ("http://example.org", 400),
    ],
)
def test_a_request_has_to_call_the_server_by_one_of_its_names(ask, base, status):
    assert ask("/api/health", base).status_code == status


def test_no_browser_keeps_a_report(ask):
    for path in ("/reports/", "/reports/housing/report.html", "/reports/missing"):
        answer = ask(path, **KNOWN)
        assert answer.headers["cache-control"] == "no-store"
    assert "no-store" not in ask("/api/health").headers.get("cache-control", "")


def test_pages_load_nothing_from_elsewhere(ask):
    policy = ask("/").headers["content-security-policy"]
    sources = {word for rule in policy.split(";") for word in rule.split()[1:]}
    assert not [source for source in sources if "://" in source or "*" in source]


@pytest.mark.parametrize(
    "path",
    [
        *("/reports", "/reports/", "/reports/housing/report.html", "/site/"),
        *("/docs", "/redoc", "/openapi.json"),
    ],
)
@pytest.mark.parametrize("password", [None, "dpcost:wrong", "dpcost:"])
def test_reports_and_the_description_of_the_api_need_the_string(ask, path, password):
    given = password and {"authorization": "Basic " + base64.b64encode(password.encode()).decode()}
    answer = ask(path, **(given or {}))
    assert answer.status_code == 401
    assert "www-authenticate" not in answer.headers  # or browsers would send the password everywhere
    assert "A report" not in answer.text
    shown = ask(path, accept="text/html,*/*", **(given or {}))
    assert (shown.status_code, shown.headers["location"]) == (303, f"/sign-in?to={path}")


@pytest.fixture
def browser(reports):
    async def prefect(scope, receive, send):
        await PlainTextResponse("yes")(scope, receive, send)

    return TestClient(
        app.guarded_app(prefect, reports, "dpcost:right", HOSTS), base_url="http://127.0.0.1:4200"
    )


def test_a_cookie_of_another_password_shows_nothing(browser, reports):
    page = "/reports/housing/report.html"
    browser.post("/sign-in", data={"password": "right"})
    cookie = browser.cookies[app.COOKIE]
    for authentication in ("dpcost:changed", "other:right", "dpcost:right "):
        other = TestClient(
            app.guarded_app(PlainTextResponse("yes"), reports, authentication, HOSTS),
            base_url="http://127.0.0.1:4200",
        )
        other.cookies.set(app.COOKIE, cookie)
        assert other.get(page).status_code == 401
    assert browser.get(page).status_code == 200


@pytest.mark.parametrize("password", ["right", "dpcost:right"])
def test_who_signs_in_gets_a_cookie_that_shows_reports_and_that_other_sites_cannot_use(browser, password):
    page = "/reports/housing/report.html"
    assert 'type="password"' in browser.get(page, headers={"accept": "text/html"}).text
    shown = browser.post(f"/sign-in?to={page}", data={"password": password})
    assert shown.text == "<h1>A report</h1>"
    cookie = shown.history[0].headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "right" not in cookie
    browser.cookies.set(app.COOKIE, "0" * 64)
    assert browser.get(page).status_code == 401


@pytest.mark.parametrize("password", ["", "wrong", "dpcost:", "dpcost"])
def test_a_wrong_password_is_asked_for_again(browser, password):
    answer = browser.post("/sign-in?to=/reports/", data={"password": password})
    assert 'type="password"' in answer.text
    assert not browser.cookies


def test_a_sign_in_leads_to_pages_of_this_server_alone(browser):
    for to in ("https://example.org/reports", "//example.org", "/api/admin", ""):
        answer = browser.post(f"/sign-in?to={to}", data={"password": "right"}, follow_redirects=False)
        assert answer.headers["location"] == "/reports/", to


FOREIGN = {
    "a form of another site": {"origin": "https://example.org", "sec-fetch-site": "cross-site"},
    "a form of another port": {"origin": "http://127.0.0.1:9999"},
    "a sandboxed form": {"origin": "null"},
    "a form without an origin": {"sec-fetch-site": "cross-site"},
    "another site of the same owner": {"sec-fetch-site": "same-site"},
}
OWN = {
    "a program": {},
    "our pages": {"origin": "http://127.0.0.1:4200", "sec-fetch-site": "same-origin"},
    "a typed address": {"sec-fetch-site": "none"},
}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_another_site_would_change_is_refused_though_it_knew_the_password(ask, method):
    for path in ("/api/deployments/bulk_delete", "/sign-in"):
        for case, headers in FOREIGN.items():
            assert ask(path, method=method, **KNOWN, **headers).status_code == 403, case
    for case, headers in OWN.items():
        assert ask("/api/deployments/bulk_delete", method=method, **KNOWN, **headers).text == "yes", case


def test_a_link_from_another_site_is_followed_and_its_socket_is_not(ask, browser):
    assert ask("/", **FOREIGN["a form of another site"]).status_code == 200
    refused = pytest.raises(WebSocketDisconnect)
    with refused, browser.websocket_connect("/api/events/in", headers={"origin": "https://example.org"}):
        pass


def test_a_folder_of_reports_is_not_created_and_is_served_once_it_is_there(reports):
    async def prefect(scope, receive, send):
        await PlainTextResponse("yes")(scope, receive, send)

    folder = reports / "later"
    guarded = app.guarded_app(prefect, folder, "dpcost:right", HOSTS)
    client = TestClient(guarded, base_url="http://127.0.0.1:4200", headers=KNOWN)
    assert client.get("/reports/").status_code == 404
    assert not folder.exists()
    folder.mkdir()
    (folder / "index.html").write_text("all studies")
    assert client.get("/reports/").text == "all studies"


def test_who_knows_the_string_sees_them(ask):
    assert ask("/reports/housing/report.html", **KNOWN).text == "<h1>A report</h1>"
    assert ask("/openapi.json", **KNOWN).text == "yes"
    redirected = ask("/reports", **KNOWN)
    assert (redirected.status_code, redirected.headers["location"]) == (307, "/reports/")


@pytest.mark.parametrize(
    "path", ["", "%2e%2e/secret", "link", "/etc/passwd", "no", "circle", "circle/deeper", "x" * 5000]
)
def test_what_is_no_report_is_not_found(ask, path):
    answer = ask(f"/reports/{path}", **KNOWN)
    assert (answer.status_code, answer.text) == (
        404,
        "there is no such report; the first run writes the index",
    )


def test_the_documentation_is_shown_or_the_page_says_how_to_build_it(ask, reports):
    assert "make docs" in ask("/site/", site=reports / "no", **KNOWN).text
    (reports / "index.html").write_text("the site")
    assert ask("/site/", site=reports, **KNOWN).text == "the site"


def test_the_network_is_not_asked_for_lists_of_integrations(ask):
    assert ask("/api/collections/views/aggregate-worker-metadata").status_code == 404


def test_before_the_first_run_there_is_no_report(ask, tmp_path):
    assert ask("/reports/", folder=tmp_path / "new" / "out", **KNOWN).status_code == 404


def test_a_sign_in_of_any_size_is_not_read_to_its_end(reports):
    parts, sent = [], []

    async def receive():
        parts.append(b"x" * 65_536)
        return {"type": "http.request", "body": parts[-1], "more_body": len(parts) < 20}

    async def send(message):
        sent.append(message)

    guarded = app.guarded_app(None, reports, "dpcost:right", HOSTS)
    about = {"type": "http", "method": "POST", "path": "/sign-in", "query_string": b""}
    about |= {"headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1)}
    asyncio.run(guarded(about, receive, send))
    assert (sent[0]["status"], len(parts)) == (413, 2)


def test_after_many_wrong_passwords_none_is_looked_at_for_a_minute(reports, monkeypatch):
    async def prefect(scope, receive, send):
        await PlainTextResponse("yes")(scope, receive, send)

    clock = [0.0]
    monkeypatch.setattr(app.time, "monotonic", lambda: clock[0])
    guarded = app.guarded_app(prefect, reports, "dpcost:right", HOSTS)

    def sign_in(address, password):
        client = TestClient(guarded, base_url="http://127.0.0.1:4200", client=(address, 1))
        return client.post("/sign-in", data={"password": password}, follow_redirects=False).status_code

    tries = [sign_in("10.0.0.1", "wrong") for _ in range(app.WRONG_PER_ADDRESS + 1)]
    assert tries == [401] * app.WRONG_PER_ADDRESS + [429]
    assert sign_in("10.0.0.1", "right") == 429
    assert sign_in("10.0.0.2", "right") == 303
    for number in range(app.WRONG_PER_ADDRESS, app.WRONG_IN_ALL):
        assert sign_in(f"10.0.1.{number}", "wrong") == 401
    assert sign_in("10.0.0.2", "right") == 429
    clock[0] = 61.0
    assert sign_in("10.0.0.1", "right") == 303


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_origin_that_is_no_address_is_a_bad_request(ask, browser, method):
    assert ask("/sign-in", method=method, origin="http://[bad").status_code == 400
    refused = pytest.raises(WebSocketDisconnect)
    with refused, browser.websocket_connect("/api/events/in", headers={"origin": "http://[bad"}):
        pass


def test_the_scheme_of_the_header_has_no_case(ask):
    for scheme in ("basic", "BASIC"):
        given = {"authorization": KNOWN["authorization"].replace("Basic", scheme)}
        assert ask("/reports/housing/report.html", **given).status_code == 200
    given = {"authorization": KNOWN["authorization"].replace("Basic", "Bearer")}
    assert ask("/reports/housing/report.html", **given).status_code == 401


def test_a_browser_is_told_that_the_server_is_starting_and_programs_are_served(reports):
    async def prefect(scope, receive, send):
        await PlainTextResponse("yes")(scope, receive, send)

    left = ["the deployments are being registered"]
    guarded = app.guarded_app(prefect, reports, "dpcost:right", HOSTS, starting=lambda: "".join(left))
    client = TestClient(guarded, base_url="http://127.0.0.1:4200")
    page = {"accept": "text/html,*/*"}
    told = client.get("/deployments", headers=page)
    assert (told.status_code, left[0] in told.text) == (503, True)
    assert client.get("/api/health").text == "yes"
    assert client.get("/reports/housing/report.html", headers=page | KNOWN).text == "<h1>A report</h1>"
    left.clear()
    assert client.get("/deployments", headers=page).text == "yes"
