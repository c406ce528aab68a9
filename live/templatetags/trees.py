"""`{% load trees %}`: JSON that folds, without a script."""

import json
from typing import Any, Final

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

MOST_NODES: Final = 500  # what a page shows folded; the text beside it has more, the API all
LONGEST_LEAF: Final = 2_000  # characters of one text
_OPEN_LEVELS: Final = 3
_DEEPEST: Final = 50
_FEW: Final = 12  # what is no longer than this stands open below the first levels too, as far as there is room


@register.filter
def tree(value: Any) -> SafeString:
    """A JSON value as lists that fold: `<details>` for what holds something, a line for what does not."""
    return format_html('<div class="json">{}</div>', _Tree().node(value, key=None, level=0))


class _Tree:
    """One value being drawn; counts what it drew, so that a huge one does not become a huge page."""

    def __init__(self) -> None:
        self._remaining = MOST_NODES

    def node(self, value: Any, *, key: str | None, level: int, step: int = 0) -> SafeString:
        self._remaining -= 1
        label = mark_safe("") if key is None else format_html('<span class="key">{}:</span> ', key)
        if isinstance(value, dict | list) and value:
            return self._branch(value, label=label, level=level, step=_step(key, step, level))
        return format_html('<div class="leaf"{}>{}{}</div>', _step(key, step, level), label, _leaf(value))

    def _branch(
        self, value: dict[str, Any] | list[Any], *, label: SafeString, level: int, step: SafeString
    ) -> SafeString:
        entries: list[tuple[str | None, Any]] = (
            [(json.dumps(key, ensure_ascii=False), child) for key, child in value.items()]
            if isinstance(value, dict)
            else [(None, child) for child in value]
        )
        is_open = level < _OPEN_LEVELS and (level == 0 or len(entries) <= _FEW)
        return format_html(
            '<details{}{}><summary>{}<span class="soft">{}</span></summary><div class="in">{}</div></details>',
            step,
            mark_safe(" open") if is_open else "",
            label,
            _size(value),
            self._children(entries, level=level),
        )

    def _children(self, entries: list[tuple[str | None, Any]], *, level: int) -> SafeString:
        drawn: list[tuple[SafeString]] = []
        for step, (key, child) in enumerate(entries):
            if self._remaining <= 0 or level >= _DEEPEST:
                drawn.append((format_html('<div class="soft">… and {} more</div>', len(entries) - len(drawn)),))
                break
            drawn.append((self.node(child, key=key, step=step, level=level + 1),))
        return format_html_join("", "{}", drawn)


def _step(key: str | None, number: int, level: int) -> SafeString:
    """What leads here from the value around it, as JSON: a key or a number. trees.js makes the path of it."""
    return format_html(' data-step="{}"', number if key is None else key) if level else mark_safe("")


def _leaf(value: Any) -> SafeString:
    kind = "text" if isinstance(value, str) else "word" if value is None or isinstance(value, bool) else "number"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > LONGEST_LEAF:
        text = f"{text[:LONGEST_LEAF]}… ({len(text):,} characters)"
    return format_html('<span class="{}">{}</span>', kind, text)


def _size(value: dict[str, Any] | list[Any]) -> str:
    count, noun = len(value), "field" if isinstance(value, dict) else "item"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
