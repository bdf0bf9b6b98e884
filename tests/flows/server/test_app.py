import base64

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from flows.server import app

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

    def ask(path, base="http://127.0.0.1:4200", folder=reports, site=reports / "site", **headers):
        guarded = app.guarded(prefect, folder, "dpcost:right", 4200, ["dpcost.example.org"], site)
        client = TestClient(guarded, base_url=base, follow_redirects=False, raise_server_exceptions=True)
        return client.get(path, headers=headers)

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


def test_pages_load_nothing_from_elsewhere(ask):
    policy = ask("/").headers["content-security-policy"]
    sources = {word for rule in policy.split(";") for word in rule.split()[1:]}
    hosts = {source.partition("://")[2] for source in sources if "://" in source}
    assert hosts == {"127.0.0.1:4200", "localhost:4200", "dpcost.example.org"}
    assert "*" not in policy


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
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert "A report" not in answer.text


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


def test_a_server_needs_a_password(monkeypatch, capsys):
    monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING", raising=False)
    monkeypatch.setattr("sys.argv", ["app", "--port", "4200"])
    with pytest.raises(SystemExit):
        app.main()
    assert "PREFECT_SERVER_API_AUTH_STRING" in capsys.readouterr().err
