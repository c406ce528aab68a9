"""Markdown of answers: what it becomes, and what never comes through."""

import re

import pytest

from examples.chat.domain.markdown import to_html
from tests.looped import looped


def html(text: str) -> str:
    return to_html(text, key="7").strip()


class TestMarkdown:
    @looped(
        ("text", "expected"),
        [
            ("**bold** and *soft*", "<p><strong>bold</strong> and <em>soft</em></p>"),
            ("# Heading", "<p><strong>Heading</strong></p>"),
            ("one\ntwo", "<p>one<br>\ntwo</p>"),
            ("`a < b`", "<p><code>a &lt; b</code></p>"),
            ("3. three", '<ol start="3">\n<li>three</li>\n</ol>'),
        ],
    )
    def test_becomes_html(self, text: str, expected: str) -> None:
        assert html(text) == expected

    def test_of_two_blocks_of_code_gives_each_a_button_of_its_own(self) -> None:
        shown = html("```python\nprint(1)\n```\n\n```\n<b>\n```")
        assert re.findall('data-copy="#([^"]+)"', shown) == ["code-7-0", "code-7-1"]
        assert re.findall('<pre id="([^"]+)"', shown) == ["code-7-0", "code-7-1"]
        assert "<code>&lt;b&gt;" in shown

    def test_has_tables(self) -> None:
        assert "<td>1</td>" in html("| a |\n| - |\n| 1 |")


class TestLinks:
    @pytest.mark.parametrize("text", ["[a](https://example.com)", "<https://example.com>"])
    def test_say_that_the_farm_does_not_vouch_for_them(self, text: str) -> None:
        assert 'href="https://example.com" rel="nofollow noopener noreferrer"' in html(text)

    @looped(
        "target",
        [
            "javascript:alert(1)", "JaVaScRiPt:alert(1)", "&#106;avascript:alert(1)", "java\tscript:alert(1)",
            "vbscript:x", "data:text/html,<script>", "data:image/svg+xml;base64,AA", "file:///etc/passwd",
            "/accounts/logout/", "//example.com",
        ],
    )  # fmt: skip
    def test_lead_to_pages_and_mail_alone(self, target: str) -> None:
        for text in (f"[a]({target})", f"[a](<{target}>)", f"<{target}>", f"[a]\n\n[a]: {target}"):
            assert "href" not in html(text)

    @pytest.mark.parametrize("target", ["https://example.com/x.png", "data:image/png;base64,AA", "/jobs/1/files/x"])
    def test_to_pictures_load_nothing(self, target: str) -> None:
        assert "<img" not in html(f"![a]({target})")


@looped(
    "text",
    [
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "<iframe src=//x>",
        "a <b onclick=alert(1)>b</b>", "<style>*{}</style>", "```\n</pre><script>alert(1)</script>\n```",
        '[a](https://x "\" onmouseover=alert(1) x=\"")', "``` \" onload=alert(1)\nx\n```", "<!-- <script> -->",
    ],
)  # fmt: skip
def test_html_is_text(text: str) -> None:
    tags = re.findall("<([a-z]+)([^>]*)>", html(text))
    assert {name for name, _ in tags} <= {"p", "br", "a", "code", "div", "button", "span", "pre"}
    bare = [re.sub('"[^"]*"', "", attributes) for _, attributes in tags]
    assert not [attributes for attributes in bare if re.search(r"\bon\w+|style|src", attributes)]


def test_a_thousand_brackets_are_read_in_no_time() -> None:
    for nasty in ("[" * 5000, "> " * 3000, "*a " * 3000, "`" * 5000, "- " * 2000):
        assert len(html(nasty)) < 200_000
