"""From a read to what is sent: the same code for the first rendering in a page and for every one after it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from functools import cached_property
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.template.loader import render_to_string
from django.utils import timezone, translation

from live.registry import Item, StateQuery, StreamQuery

_REPLAY_CHARACTERS: Final = 262_144  # how much of a stream a page holds at once; the socket brings the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """One answer of a state query. `encoded` is the body as JSON: made once, sent to many."""

    version: str
    kind: str  # "html" or "data"
    body: str
    encoded: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Consecutive items of a stream, at least one. What is made of it is made once for all who watch: what one of them
    made of it the others find in `shared`."""

    items: tuple[Item, ...]
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def cursor(self) -> str:
        return self.items[-1].cursor

    @cached_property
    def text(self) -> str:
        return "".join(_text(item.data) for item in self.items)

    @cached_property
    def data(self) -> tuple[str, ...]:
        """The data of each as JSON."""
        return tuple(json.dumps(item.data, cls=DjangoJSONEncoder) for item in self.items)

    @cached_property
    def encoded(self) -> str:
        """The whole list as JSON."""
        entries = zip(self.items, self.data, strict=True)
        encoded = ", ".join(f'{{"cursor": {json.dumps(item.cursor)}, "data": {text}}}' for item, text in entries)
        return f"[{encoded}]"


def state(query: StateQuery, arguments: Mapping[str, Any], *, audience: str, language: str) -> Rendering | None:
    """Read and render, or return None when it is gone. The version is a hash of the rendering. Times are rendered in
    UTC: the browser shows `<time datetime>` in its own zone, so one rendering serves all."""
    with translation.override(language), timezone.override(UTC):
        context = query.read(**arguments)
        if context is None:
            return None
        return data(context) if query.template is None else _html(query.template, context, audience)


def data(context: Mapping[str, Any]) -> Rendering:
    """What a read has returned, as JSON."""
    encoded = json.dumps(context, cls=DjangoJSONEncoder)
    return Rendering(version=_hash(encoded), kind="data", body=encoded, encoded=encoded)


def from_context(template: str, context: Mapping[str, Any], *, audience: str, language: str) -> Rendering:
    """Render what was read already, as `state` would."""
    with translation.override(language), timezone.override(UTC):
        return _html(template, context, audience)


def page(query: StreamQuery, arguments: Mapping[str, Any], *, after: str | None) -> Page | None:
    """Read what follows a cursor, at most `query.page` items, or return None when nothing does."""
    items = query.read(after, query.page, **arguments)
    return Page(items=tuple(items)) if items else None


def replay(query: StreamQuery, arguments: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the text of a stream from its start, as much as a page holds, and the cursor it ends at."""
    texts: list[str] = []
    cursor: str | None = None
    size = 0
    while size < _REPLAY_CHARACTERS and (following := page(query, arguments, after=cursor)) is not None:
        texts.append(following.text)
        cursor = following.cursor
        size += len(following.text)
        if len(following.items) < query.page:
            break
    return "".join(texts), cursor


def _html(template: str, context: Mapping[str, Any], audience: str) -> Rendering:
    body = render_to_string(template, {**context, "audience": audience})
    return Rendering(version=_hash(body), kind="html", body=body, encoded=json.dumps(body))


def _text(data: Any) -> str:
    return str(data.get("text", "")) if isinstance(data, Mapping) else str(data)


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
