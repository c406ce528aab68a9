"""Markdown of answers as HTML that a page may hold, whatever a model or somebody in the room had it write."""

import re
from functools import lru_cache
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt

# Raw HTML is text; a picture becomes a link, so that a page loads nothing from elsewhere.
_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"]).disable("image")
)
# The page has headings of its own: those of an answer are paragraphs in bold.
_PARSER.add_render_rule("heading_open", lambda *_: "<p><strong>")
_PARSER.add_render_rule("heading_close", lambda *_: "</strong></p>\n")

_TAGS: Final = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
_CLEAN: Final[dict[str, Any]] = {
    "tags": _TAGS,
    "attributes": {"a": {"href", "title"}, "ol": {"start"}},
    "url_schemes": {"http", "https", "mailto"},
    "link_rel": "nofollow noopener noreferrer",
    "url_relative": "deny",  # nobody is led about the farm by what a model wrote
}
REMEMBERED: Final = 256  # texts of this process; a room shows its newest again with each message


def to_html(text: str, *, key: str) -> str:
    """The text as clean HTML. Each block of code has a button that copies it; `key` makes its id unique in a page."""
    numbers = iter(range(len(text)))
    return re.sub(
        r"<pre>(.*?)</pre>",
        lambda match: _copyable(match[1], f"code-{key}-{next(numbers)}"),
        _html(text),
        flags=re.DOTALL,
    )


@lru_cache(maxsize=REMEMBERED)
def _html(text: str) -> str:
    return nh3.clean(_PARSER.render(text), **_CLEAN)


def _copyable(code: str, name: str) -> str:
    return (
        f'<div class="code-block"><button class="button small" type="button" data-copy="#{name}">Copy'
        f'<span class="visually-hidden"> this code</span></button>'
        f'<pre id="{name}" tabindex="0" aria-label="Code">{code}</pre></div>'
    )
