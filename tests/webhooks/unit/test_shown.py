"""What of a body may be shown: links, amounts, the subject of a tool, the caller of a gateway."""

import pytest

from tests.looped import looped
from webhooks.domain import parts
from webhooks.handlers import sandbox, stripe
from webhooks.handlers.sandbox import Caller


class TestLinks:
    @pytest.mark.parametrize(
        "url",
        [
            "https://github.com/a/b/issues/1",
            "https://example.org:8443/a?b=c&d=%20#e",
            "https://xn--bcher-kva.example/",
            "https://[2001:db8::1]/",
        ],
    )
    def test_of_https_are_shown_as_they_are(self, url: str) -> None:
        assert parts.https(url) == url

    @looped(
        "url",
        [
            "",
            None,
            "http://example.org/",
            "javascript:alert(1)",
            "JavaScript:alert(1)//https://example.org",
            "data:text/html,<script>alert(1)</script>",
            "//example.org/a",
            "https:",
            "https://",
            "https:///path",
            "https://user:secret@example.org/",
            "https://example.org@evil.example/",
            "https://example.org\\@evil.example/",
            "https://example.org/ a",
            "https://example.org/\na",
            "https://example.org/\x00",
            'https://example.org/"onclick="alert(1)',
            "https://example.org/<script>",
            "https://example.org/'a",
            "https://exämple.org/",
            "https://example.org:port/",
            "https://[::1",
            "https://example.org/" + "a" * 500,
            " https://example.org/",
        ],
    )
    def test_of_anything_else_are_none(self, url: str | None) -> None:
        assert parts.https(url) == ""

    def test_quote_what_is_put_into_them(self) -> None:
        assert parts.under("https://a.example/x/", "b/../c", 7, "d?e#f") == "https://a.example/x/b%2F..%2Fc/7/d%3Fe%23f"

    def test_under_something_else_are_none(self) -> None:
        assert parts.under("http://a.example", "b") == ""
        assert parts.under(None, "b") == ""
        assert parts.under("https://a.example", "ä" * 200) == ""

    @looped(
        ("url", "host", "site"),
        [
            ("https://A.atlassian.net/rest/api/2/issue/1", "a.atlassian.net", "https://a.atlassian.net"),
            ("http://jira.local:8080/rest", "jira.local:8080", ""),
            ("http://u:p@jira.local/rest", "jira.local", ""),
            ("ftp://a.example/", "", ""),
            ("not an address", "", ""),
            ("https://[::1", "", ""),
            (None, "", ""),
        ],
    )
    def test_name_their_site(self, url: str | None, host: str, site: str) -> None:
        assert (parts.host(url), parts.site(url)) == (host, site)


class TestMoney:
    @looped(
        ("amount", "currency", "text"),
        [
            (2000, "usd", "20.00 USD"),
            (5, "eur", "0.05 EUR"),
            (-1999, "eur", "-19.99 EUR"),
            (2000, "jpy", "2000 JPY"),
            (2001, "kwd", "2.001 KWD"),
            (7, "", "7"),
            (0, "usd", "0.00 USD"),
        ],
    )
    def test_is_shown_in_its_currency(self, amount: int, currency: str, text: str) -> None:
        assert stripe.price(amount, currency) == text


class TestTools:
    @looped(
        ("tool_input", "subject"),
        [
            ({"file_path": "/a/b.py", "content": "secret"}, "/a/b.py"),
            ({"command": "curl -H 'Authorization: secret'", "description": "Fetch"}, "Fetch"),
            ({"command": "curl -H 'Authorization: secret'"}, ""),
            ({"url": "https://example.org/a?token=secret"}, "example.org"),
            ({"pattern": "**/*.py"}, "**/*.py"),
            ({"file_path": 7, "description": ["x"]}, ""),
            ({"file_path": "/" + "a" * 300}, "/" + "a" * 254),
            ({}, ""),
        ],
    )
    def test_say_what_they_were_used_on_and_no_secret(self, tool_input: dict[str, object], subject: str) -> None:
        assert sandbox.subject_of(tool_input) == subject

    def test_without_an_id_are_known_by_session_tool_and_input(self) -> None:
        given = sandbox.identity_of_use("s1", "Bash", {"command": "ls", "n": 1})
        assert given == sandbox.identity_of_use("s1", "Bash", {"n": 1, "command": "ls"})
        others = {
            sandbox.identity_of_use("s2", "Bash", {"command": "ls", "n": 1}),
            sandbox.identity_of_use("s1", "Read", {"command": "ls", "n": 1}),
            sandbox.identity_of_use("s1", "Bash", {"command": "ls", "n": 2}),
        }
        assert len(others | {given}) == 4


class TestCaller:
    @looped(
        ("event", "caller"),
        [
            (None, Caller(kind="unknown")),
            ({}, Caller(kind="custom")),
            (
                {
                    "request": {"url": "https://u:p@a.example/b?token=secret", "method": "GET"},
                    "response": {"status": 503},
                },
                Caller(kind="fetch", subject="GET a.example/b", status=503),
            ),
            ({"request": {"url": "https://[::1", "method": 7}}, Caller(kind="fetch")),
            ({"request": "x", "response": {"status": 10**9}}, Caller(kind="fetch")),
            ({"request": {}, "response": {"status": "200"}}, Caller(kind="fetch")),
            ({"cron": "0 6 * * *", "scheduledTime": 1}, Caller(kind="scheduled", subject="0 6 * * *")),
            ({"scheduledTime": "2026-11-21T12:00:00Z"}, Caller(kind="alarm")),
            ({"queue": "jobs", "batchSize": 10}, Caller(kind="queue", subject="jobs")),
            ({"rpcMethod": "run"}, Caller(kind="rpc", subject="run")),
            ({"mailFrom": "a@example.org"}, Caller(kind="email")),
            ({"consumedEvents": []}, Caller(kind="tail")),
            ({"getWebSocketEvent": {}}, Caller(kind="websocket")),
        ],
    )
    def test_is_read_from_the_fields_of_its_event(self, event: dict[str, object] | None, caller: Caller) -> None:
        assert sandbox.caller_of(event) == caller
