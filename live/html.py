"""The element around a live part of a page, with its first rendering inside."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.utils import translation
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from live import registry, rendering
from live.registry import Arguments

_ELEMENTS: Final = frozenset({
    "article", "dd", "div", "li", "ol", "p", "pre", "section", "span", "strong", "tbody", "td", "th", "thead", "tr",
    "ul",
})  # fmt: skip

# What scrolls is reached by the keyboard, and named to who does not see it.
REACHED: Final = {"tabindex": "0", "role": "group"}


def wrapper(
    name: str, arguments: Mapping[str, Any], *, viewer: registry.Viewer | None = None, audience: str | None = None,
    element: str = "", css: str = "",
) -> SafeString:  # fmt: skip
    """Return the element that `live.js` keeps up to date, filled with what this viewer may see now.

    Pass the viewer, whose rights are read, or the audience, where the page has decided already (the admin), or both.
    What the viewer may not see, or what is gone, is an empty string. `element` is the tag (div; pre for a stream),
    `css` its classes. Raises UnknownQuery and BadArguments, ValueError for a tag that is not in the list.
    """
    query = registry.find(name)
    complete = query.checked(arguments)
    if audience is None and viewer is not None:
        audience = query.audience(viewer, complete)
    if audience is None:
        return mark_safe("")
    ticket = viewer.ticket if viewer else None
    if isinstance(query, registry.StreamQuery):
        return _stream(query, complete, ticket=ticket, element=element or "pre", css=css)
    first = rendering.state(query, complete, audience=audience, language=_language())
    return mark_safe("") if first is None else _state(query, complete, first, ticket, element or "div", css)


def wrapper_of_context(
    name: str, arguments: Mapping[str, Any], *, context: Mapping[str, Any], audience: str, element: str = "span"
) -> SafeString:
    """Return the element of a state query rendered from this context in place of its read.

    For lists, whose one read has all rows. `context` must be what the read would return: the rendering is then
    the same, and the socket has nothing to send until it changes. Raises as `wrapper`.
    """
    query = registry.find(name)
    if not isinstance(query, registry.StateQuery) or query.template is None:
        raise ValueError(f"{name} is no state that a template shows")
    first = rendering.from_context(query.template, context, audience=audience, language=_language())
    return _state(query, query.checked(arguments), first, None, element, css="")


def _state(
    query: registry.StateQuery, arguments: Arguments, first: rendering.Rendering, ticket: str | None, element: str,
    css: str,
) -> SafeString:  # fmt: skip
    if first.kind != "html":  # data has no first rendering: without a version the socket brings it at once
        return _element(element, css, {"data-live": query.name}, arguments, ticket, "")
    attributes = {"data-live": query.name, "data-live-version": first.version}
    body = mark_safe(first.body)  # noqa: S308  # a template escaped it
    return _element(element, css, attributes, arguments, ticket, body)


def _stream(
    query: registry.StreamQuery, arguments: Arguments, *, ticket: str | None, element: str, css: str
) -> SafeString:
    text, cursor = rendering.replay(query, arguments)
    attributes = {"data-live": query.name, "data-live-stream": "", "data-live-cursor": cursor or ""}
    if element == "pre":  # it scrolls: the keyboard reaches it
        attributes |= REACHED | {"aria-label": "Output"}
    return _element(element, css, attributes, arguments, ticket, text)


def _element(
    element: str, css: str, attributes: dict[str, str], arguments: Arguments, ticket: str | None, body: str
) -> SafeString:
    if element not in _ELEMENTS:
        raise ValueError(f"A live part cannot be a <{element}>, only one of {', '.join(sorted(_ELEMENTS))}")
    attributes["data-live-args"] = json.dumps(arguments)
    if ticket:
        attributes["data-live-ticket"] = ticket
    if css:
        attributes["class"] = css
    tag = mark_safe(element)  # noqa: S308  # one of a fixed list
    # A newline right after <pre> is the parser's, so that one of the stream's own is not swallowed.
    lead = "\n" if element == "pre" else ""
    pairs = format_html_join("", ' {}="{}"', attributes.items())
    return format_html("<{}{}>{}{}</{}>", tag, pairs, lead, body, tag)


def _language() -> str:
    return translation.get_language() or settings.LANGUAGE_CODE
