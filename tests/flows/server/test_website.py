import base64

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from flows.website import with_reports

HOSTS = ["127.0.0.1", "localhost", "dpcost.example.org"]


def known(password="dpcost:right", scheme="Basic"):
    return {"authorization": f"{scheme} {base64.b64encode(password.encode()).decode()}"}


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

    def ask(path, base="http://127.0.0.1:4200", site=reports / "site", **headers):
        guarded = with_reports(PlainTextResponse("yes"), reports, "dpcost:right", HOSTS, site)
        return TestClient(guarded, base_url=base, follow_redirects=False).get(path, headers=headers)

    return ask


@pytest.mark.parametrize(
    ("base", "status"),
    [
        *[(f"http://{host}", 200) for host in ("127.0.0.1:4200", "localhost:4200", "dpcost.example.org")],
        *[(f"http://{host}", 400) for host in ("rebound.example.org:4200", "example.org")],
    ],
)
def test_a_request_has_to_call_the_server_by_one_of_its_names(ask, base, status):
    assert ask("/api/health", base).status_code == status


def test_pages_load_nothing_from_elsewhere(ask):
    policy = ask("/").headers["content-security-policy"]
    sources = {word for rule in policy.split(";") for word in rule.split()[1:]}
    assert not [source for source in sources if "://" in source or "*" in source]


@pytest.mark.parametrize("path", ["/reports", "/reports/", "/reports/housing/report.html", "/site/"])
@pytest.mark.parametrize("password", [None, "dpcost:wrong", "dpcost:", "right", "", "dpcost:right2"])
def test_reports_and_documentation_need_name_and_password(ask, path, password):
    answer = ask(path, **({} if password is None else known(password)))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")  # a browser asks for both
    assert "A report" not in answer.text


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic", "Bearer"])
def test_who_knows_the_password_sees_the_reports(ask, scheme):
    answer = ask("/reports/housing/report.html", **known(scheme=scheme))
    assert answer.status_code == (401 if scheme == "Bearer" else 200)
    redirected = ask("/reports", **known())
    assert (redirected.status_code, redirected.headers["location"]) == (307, "/reports/")


def test_no_request_outside_the_reports_makes_a_browser_ask_for_the_password(ask):
    """Or it would send it with every request to Prefect's API, those of other sites included."""
    for path in ("/", "/api/deployments/filter", "/docs", "/openapi.json", "/reportsx"):
        assert "www-authenticate" not in ask(path).headers, path


def test_no_browser_keeps_a_report(ask):
    for path in ("/reports/", "/reports/housing/report.html", "/reports/missing"):
        assert ask(path, **known()).headers["cache-control"] == "no-store"
    assert "no-store" not in ask("/api/health").headers.get("cache-control", "")


def test_another_site_neither_frames_a_report_nor_loads_it(ask):
    headers = ask("/reports/housing/report.html", **known()).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_the_documentation_is_shown_or_the_page_says_how_to_build_it(ask, reports):
    assert "make docs" in ask("/site/", site=reports / "no", **known()).text
    (reports / "index.html").write_text("the site")
    assert ask("/site/", site=reports, **known()).text == "the site"
