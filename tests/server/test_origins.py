"""Claim: the pages of an origin may use the server exactly where --allow-origin says so, and a
pattern that no browser's origin matches is refused at the start."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from command import run
from edgespec.errors import UsageError
from edgespec.server.app import application
from edgespec.server.http.origins import Origins
from serving import CHAT, DRAFTED, chat

SITE, LOCAL = "https://own.example", "http://localhost:3000"
ALLOWED = [
    ("*", SITE),
    ("*", "null"),
    ("null", "null"),
    (SITE, SITE),
    ("http://localhost:*", "http://localhost"),
    ("http://localhost:*", LOCAL),
    ("http://[::1]:*", "http://[::1]:8080"),
    ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
    ("https://*.own.example", "https://a.b.own.example"),
    ("https://*", SITE),
    ("http://*:*", LOCAL),
    ("app://obsidian.md", "app://obsidian.md"),
    ("app://*", "app://localhost"),
    ("file://", "file://"),
    ("tauri://*", "tauri://localhost"),
    ("chrome-extension://*", "chrome-extension://abcdefgh"),
    ("vscode-webview://*", "vscode-webview://0a1b"),
]
OTHERS = [
    (SITE, "http://own.example"),
    (SITE, "https://own.example.evil.example"),
    (SITE, "https://own-example"),
    (SITE, "https://own.example:8443"),
    ("http://localhost:*", "http://localhost.evil.example:80"),
    ("http://localhost:*", "https://localhost:3000"),
    ("https://*.own.example", "https://own.example"),
    ("https://*.own.example", "https://evilown.example"),
    ("https://*", "https://own.example:8443"),
    ("https://*", "http://own.example"),
    ("null", SITE),
]
NEVER = {
    "": "give a scheme and a host",
    "example.org": "give a scheme and a host",
    "https://own.example/": "without a path",
    "https://own.example/chat": "without a path",
    "HTTPS://own.example": "small letters",
    "https://Own.example": "small letters",
    "https://me@own.example": "give a scheme and a host",
    "https://größe.example": "give a scheme and a host",
    "https://own.*": "give a scheme and a host",
    "*://own.example": "give a scheme and a host",
    "https://own.example:443": "browsers leave out port 443 of https; give 'https://own.example'",
    "http://localhost:80": "browsers leave out port 80 of http; give 'http://localhost'",
    "http://localhost:0": "give a port from 1 to 65535",
    "http://localhost:99999": "give a port from 1 to 65535",
    "http://localhost:" + "1" * 5000: "give a port from 1 to 65535",
    "https://a.example,https://b.example": "give a scheme and a host",
}


def answers(client, origin):
    """Whether a page's preflight and its request are answered."""
    headers = {"Origin": origin}
    asked = {**headers, "Access-Control-Request-Method": "POST"}
    preflight = client.options("/v1/completions", headers=asked)
    answer = client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1}, headers=headers)
    for response in (preflight, answer):
        allowed = response.headers.get("access-control-allow-origin")
        assert (response.status_code == 200) == (allowed in (origin, "*"))
    return preflight.status_code == 200, answer.status_code == 200


@pytest.mark.parametrize(("pattern", "origin"), ALLOWED)
def test_a_page_of_an_allowed_origin_may_ask_and_read(tiny, pattern, origin):
    served = application({"tiny": tiny}, {}, origins=["https://another.example", pattern])
    with TestClient(served, base_url="http://localhost") as client:
        assert answers(client, origin) == (True, True)


@pytest.mark.parametrize(("pattern", "origin"), OTHERS)
def test_a_page_of_another_origin_may_not(tiny, pattern, origin):
    served = application({"tiny": tiny}, {}, origins=[pattern])
    with TestClient(served, base_url="http://localhost") as client:
        assert answers(client, origin) == (False, False)


@pytest.mark.parametrize("pattern", NEVER)
def test_a_pattern_that_nothing_matches_is_refused(pattern):
    with pytest.raises(UsageError, match="--allow-origin is .*" + NEVER[pattern]):
        Origins([SITE, pattern])


def test_it_is_refused_before_anything_is_loaded(tmp_path):
    error = run("serve", tmp_path / "absent", "--allow-origin", "localhost:3000", code=2).stderr
    assert error.startswith("edgespec: --allow-origin is 'localhost:3000'")


def test_without_a_pattern_no_page_may(tiny):
    with TestClient(application({"tiny": tiny}, DRAFTED), base_url="http://localhost") as client:
        assert client.post(CHAT, json=chat(), headers={"Origin": SITE}).status_code == 403


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        *((name, True) for name in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:80")),
        *((name, True) for name in ("My.Machine", "my.machine:8080")),
        *((name, False) for name in ("evil.example", "localhost.evil.example", "x.localhost")),
        *((name, False) for name in ("", "[::1", "::1", "localhost:80:80", "localhost:x", "a b")),
        *((name, False) for name in ("127.0.0.1.evil.example", "x" * 9000)),
    ],
)
def test_requests_name_a_host_of_this_server(tiny, host, answered):
    served = application({"tiny": tiny}, {}, host="My.Machine")
    with TestClient(served, base_url="http://localhost") as client:
        response = client.get("/health", headers={"Host": host})
        assert (response.status_code == 200) is answered
        if not answered:
            assert response.status_code == 400
            error = response.json()["error"]["message"]
            assert "my.machine" in error
            assert "--host NAME" in error
            assert len(error) < 300
